"""Binary frames over a byte stream, and a client of the firmware in micro_ops/targets/common.

docs/firmware.md, "Protocol", is the specification.
"""

import dataclasses
import struct
import zlib

import numpy as np

from converters.errors import TflmTrainError

SYNC = 0xA5
CHUNK = 1024
_REASONS = {
    1: "a frame with a wrong CRC",
    2: "an unknown request",
    3: "a wrong length",
    4: "a value",
}


class ProtocolError(TflmTrainError):
    """The device refused a request, or answered with something else than a frame."""


def encode(kind, payload=b""):
    """Bytes of a frame."""
    head = struct.pack("<cH", kind.encode(), len(payload))
    return bytes([SYNC]) + head + payload + struct.pack("<I", zlib.crc32(head + payload))


def decode(read):
    """(kind, payload) of the next frame; `read(n)` returns n bytes or raises.

    Bytes before a frame's start are passed over.

    Raises:
      ProtocolError: the CRC does not fit.
    """
    while read(1)[0] != SYNC:
        pass
    head = read(3)
    kind, length = struct.unpack("<cH", head)
    payload = read(length)
    (crc,) = struct.unpack("<I", read(4))
    if crc != zlib.crc32(head + payload):
        raise ProtocolError("Expected a frame with its CRC, got a damaged one: check the wiring")
    return kind.decode("latin-1"), payload


@dataclasses.dataclass(frozen=True)
class Info:
    """What a device says about its model."""

    inputs: int
    outputs: int
    state_bytes: int
    max_batch: int
    trains: bool
    stack_used: int


class Client:
    """Calls on a device through a pair of functions.

    Args:
      write: takes bytes to send.
      read: `read(n)` returns the next n bytes.
    """

    def __init__(self, write, read):
        self._write, self._read = write, read

    def request(self, kind, payload=b""):
        """Send a request, return its answer's payload.

        Raises:
          ProtocolError: refused, or another answer.
        """
        self._write(encode(kind, payload))
        answer, data = decode(self._read)
        if answer == "!":
            reason = _REASONS.get(data[0], f"reason {data[0]}")
            raise ProtocolError(
                f"Expected an answer to {kind!r}, got a refusal because of {reason}"
            )
        if answer != kind:
            raise ProtocolError(f"Expected an answer to {kind!r}, got one to {answer!r}")
        return data

    def info(self):
        """The model's `Info`."""
        values = struct.unpack("<6I", self.request("I"))
        return Info(*values[:4], bool(values[4]), values[5])

    def infer(self, x):
        """Int8 logits of one int8 sample."""
        return np.frombuffer(self.request("P", _bytes(x)), np.int8)

    def train(self, x, labels):
        """One step on int8 samples [n, ...]: (result, loss, logits)."""
        for slot, (sample, label) in enumerate(zip(x, labels, strict=True)):
            self.request("D", struct.pack("<Hi", slot, int(label)) + _bytes(sample))
        data = self.request("T", struct.pack("<H", len(labels)))
        result, loss = struct.unpack("<iq", data[:12])
        return result, loss, np.frombuffer(data[12:], np.int8)

    def end_epoch(self, metric):
        """Tell the schedule a validation metric; returns q."""
        return struct.unpack("<i", self.request("E", struct.pack("<q", int(metric))))[0]

    def set_decay(self, shift):
        """Make every update 2^shift times smaller."""
        self.request("K", struct.pack("<i", int(shift)))

    def crc(self):
        """CRC-32 of the trained tensors."""
        return struct.unpack("<I", self.request("C"))[0]

    def get_state(self):
        """Bytes of the training state."""
        size, parts, offset = self.info().state_bytes, [], 0
        while offset < size:
            parts.append(self.request("S", struct.pack("<I", offset)))
            offset += len(parts[-1])
        return b"".join(parts)

    def set_state(self, state):
        """Take over bytes from `get_state`."""
        for offset in range(0, len(state), CHUNK):
            self.request("L", struct.pack("<I", offset) + state[offset : offset + CHUNK])

    def reset(self):
        """Back to the exported weights."""
        self.request("R")

    def quit(self):
        """End the application (an emulator stops)."""
        self.request("Q")


def _bytes(x):
    return np.ascontiguousarray(x, np.int8).tobytes()
