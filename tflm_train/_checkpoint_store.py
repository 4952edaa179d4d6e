"""Two-slot checkpoints of a device's flash: the twin of micro_ops/trainer/checkpoint_store.h."""

import struct
import zlib

from converters.errors import CheckpointError

MAGIC = 0x54434B50
VERSION = 1
_HEADER = struct.Struct("<8I")


class CheckpointStore:
    """Reads and writes the image of the flash area that a device keeps its training state in.

    Args:
      image: bytes of the whole area, two slots.
      model_hash: `zlib.crc32` of the model's `.tflite`.
      program_bytes: smallest unit the flash programs; RP2040: 256.

    Attributes:
      image: a bytearray, changed by `save`.

    Raises:
      ValueError: sizes that do not fit each other.

    Example:
      >>> store = CheckpointStore(b"\\xff" * 8192, model_hash=7, program_bytes=256)
      >>> store.save(b"scores")
      >>> store.load()
      (b'scores', 1)
    """

    def __init__(self, image, *, model_hash, program_bytes):
        self.image = bytearray(image)
        self._slot = len(self.image) // 2
        self._hash = model_hash
        self._area = -(-_HEADER.size // program_bytes) * program_bytes
        if len(self.image) % 2 or self._slot % program_bytes or self._area >= self._slot:
            raise ValueError(
                f"Expected an even number of program units of {program_bytes} bytes, got "
                f"{len(self.image)} bytes"
            )
        self._unit = program_bytes

    def load(self):
        """The newest state of the model.

        Returns:
          (payload, sequence number).

        Raises:
          CheckpointError: there is none, or it belongs to another model or version.
        """
        headers = [self._header(i) for i in (0, 1)]
        slot = self._newest(headers)
        if slot is None:
            found = [h for h in headers if h]
            if any(h[1] > VERSION for h in found):
                raise CheckpointError("Expected a checkpoint of version 1, got a newer one")
            if found:
                raise CheckpointError(
                    f"Expected a checkpoint of model {self._hash:08x}, got one of "
                    f"{found[0][3]:08x}: use the .tflite that the device runs"
                )
            raise CheckpointError("Expected a checkpoint, got none: both slots are empty or torn")
        begin = slot * self._slot + self._area
        return bytes(self.image[begin : begin + headers[slot][2]]), headers[slot][4]

    def save(self, payload):
        """Write a state to the slot that does not hold the newest one.

        Raises:
          CheckpointError: larger than a slot.
        """
        room = self._slot - self._area
        if len(payload) > room:
            raise CheckpointError(
                f"Expected at most {room} bytes for a slot of {self._slot}, got {len(payload)}"
            )
        headers = [self._header(i) for i in (0, 1)]
        newest = self._newest(headers)
        slot = 0 if newest is None else 1 - newest
        sequence = 1
        known = [h[4] for h in headers if h]
        if known:
            latest = known[0]
            for other in known[1:]:
                latest = other if _newer(other, latest) else latest
            sequence = (latest + 1) & 0xFFFFFFFF
        crc = zlib.crc32(payload)
        head = _HEADER.pack(MAGIC, VERSION, len(payload), self._hash, sequence, crc, 0, 0)
        head = head[:28] + struct.pack("<I", zlib.crc32(head[:28]))
        body = head.ljust(self._area, b"\xff") + bytes(payload)
        body = body.ljust(self._slot, b"\xff")
        self.image[slot * self._slot : (slot + 1) * self._slot] = body

    def _header(self, slot):
        begin = slot * self._slot
        raw = bytes(self.image[begin : begin + _HEADER.size])
        values = _HEADER.unpack(raw)
        if values[0] != MAGIC or values[7] != zlib.crc32(raw[:28]):
            return None
        if values[1] > VERSION:
            return values
        if values[2] > self._slot - self._area:
            return None
        payload = self.image[begin + self._area : begin + self._area + values[2]]
        return values if zlib.crc32(payload) == values[5] else None

    def _newest(self, headers):
        best = None
        for slot, h in enumerate(headers):
            if h is None or h[1] > VERSION or h[3] != self._hash:
                continue
            if best is None or _newer(h[4], headers[best][4]):
                best = slot
        return best


def _newer(a, b):
    return 0 < ((a - b) & 0xFFFFFFFF) < 1 << 31
