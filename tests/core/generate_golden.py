"""Writes golden_kernels.bin: small single-operator models, inputs and the reference's outputs.

Run `python tests/core/generate_golden.py` after a change of the reference or of the cases; the
C++ tests and test_golden.py hold every engine to the file. A record is, in little-endian int32:
number of inputs, samples, then for each block its size and bytes: model, inputs, output.
"""

import struct
import sys
import zlib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import kernel_cases  # noqa: E402

GOLDEN = Path(__file__).parent / "golden_kernels.bin"
PER_KIND = 4
MOST_BYTES = 2500


def records():
    """(model, inputs, output) of the first small cases of every kind."""
    for kind, make in kernel_cases.KINDS.items():
        found, seed = 0, 0
        while found < PER_KIND:
            rng = np.random.default_rng([zlib.crc32(kind.encode()), 500 + seed])
            seed += 1
            raw, inputs, expected = make(rng)
            if len(raw) + sum(x.size for x in inputs) + expected.size <= MOST_BYTES:
                found += 1
                yield raw, inputs, expected


def encode(items):
    """The bytes of the file."""
    out = bytearray()
    for raw, inputs, expected in items:
        out += struct.pack("<ii", len(inputs), len(inputs[0]))
        for block in (raw, *(x.tobytes() for x in inputs), expected.tobytes()):
            out += struct.pack("<i", len(block)) + block
    return bytes(out)


def decode(data):
    """Lists (model, input blocks, samples, output block) back from the bytes."""
    position = 0
    while position < len(data):
        count, samples = struct.unpack_from("<ii", data, position)
        position += 8
        blocks = []
        for _ in range(count + 2):
            (size,) = struct.unpack_from("<i", data, position)
            blocks.append(data[position + 4 : position + 4 + size])
            position += 4 + size
        yield blocks[0], blocks[1:-1], samples, blocks[-1]


if __name__ == "__main__":
    GOLDEN.write_bytes(encode(records()))
