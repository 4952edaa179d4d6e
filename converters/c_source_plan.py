"""One static arena: buffers with lifetimes get offsets, and those that never meet share bytes."""

import dataclasses

ALIGNMENT = 16


def aligned(size):
    """`size` rounded up to the arena's alignment."""
    return -(-int(size) // ALIGNMENT) * ALIGNMENT


@dataclasses.dataclass
class Buffer:
    """Bytes that live from step `first` to step `last` of a program."""

    name: str
    size: int
    first: int
    last: int
    offset: int = -1


class Arena:
    """Buffers of a program whose steps are numbered.

    Example:
      >>> arena = Arena()
      >>> arena.use("a", 0, 100)
      >>> arena.use("b", 1, 50)
      >>> arena.use("a", 1)
      >>> arena.plan()
      176
    """

    def __init__(self):
        self.buffers = {}

    def use(self, name, step, size=None):
        """Note that `name` is written or read at `step`; the first use gives its size in bytes."""
        buffer = self.buffers.get(name)
        if buffer is None:
            self.buffers[name] = Buffer(name, aligned(size), step, step)
            return
        buffer.first = min(buffer.first, step)
        buffer.last = max(buffer.last, step)

    def plan(self):
        """Fix the offsets, largest buffer first at the lowest place that is free; returns bytes."""
        placed = []
        for buffer in sorted(self.buffers.values(), key=lambda b: (-b.size, b.first, b.name)):
            near = [b for b in placed if b.first <= buffer.last and buffer.first <= b.last]
            offset = 0
            for other in sorted(near, key=lambda b: b.offset):
                if offset + buffer.size <= other.offset:
                    break
                offset = max(offset, other.offset + other.size)
            buffer.offset = offset
            placed.append(buffer)
        return max((b.offset + b.size for b in placed), default=0)
