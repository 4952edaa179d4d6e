"""Two-slot checkpoints: every power cut, every refusal, C++ and Python on the same bytes."""

import ctypes
import shutil
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.errors import CheckpointError
from tflm_train._checkpoint_store import CheckpointStore
from tflm_train._firmware.targets import micro_ops_root

MODEL = 0x1234ABCD
_ERASE = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint32)
_PROGRAM = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)
_READ = ctypes.CFUNCTYPE(
    ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32
)
OK, EMPTY, OTHER_MODEL, OTHER_SIZE, NEWER, TOO_LARGE, FLASH, BAD_STORE = range(8)


class _Shim(ctypes.Structure):
    _fields_ = [
        ("erase", _ERASE), ("program", _PROGRAM), ("read", _READ),
        ("sector", ctypes.c_uint32), ("unit", ctypes.c_uint32), ("slot", ctypes.c_uint32),
        ("model", ctypes.c_uint32),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("c++") is None:
        pytest.skip("no c++ on PATH")
    output = tmp_path_factory.mktemp("shim") / "libshim.so"
    root = micro_ops_root()
    subprocess.run(
        ["c++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
         "-fsanitize=undefined", "-fno-sanitize-recover=all", f"-I{root}",
         str(root / "micro_ops/trainer/checkpoint_store.cc"),
         str(Path(__file__).parent / "checkpoint_shim.cc"), "-o", str(output)],
        check=True,
    )  # fmt: skip
    shim = ctypes.CDLL(str(output))
    shim.shim_text.restype = ctypes.c_char_p
    return shim


class Flash:
    """NOR flash: erase sets sectors to ones, programming clears bits, a cut stops in the middle."""

    def __init__(self, library, *, sector=256, unit=32, slot=1024, model=MODEL, image=None):
        self.library, self.sector, self.unit, self.slot = library, sector, unit, slot
        self.model = model
        self.cells = bytearray(image or b"\xff" * (2 * slot))
        self.operations, self.cut_at, self.torn = 0, None, None

    def _operate(self, begin, new):
        if self.cut_at is not None and self.operations >= self.cut_at:
            if self.operations == self.cut_at:
                done, rest = self.torn(len(new))
                old = self.cells[begin + done : begin + done + rest]
                noise = np.random.default_rng(self.operations).integers(0, 256, len(old), np.uint8)
                self.cells[begin : begin + done] = new[:done]
                self.cells[begin + done : begin + done + rest] = noise.tobytes()
            self.operations += 1
            return False
        self.cells[begin : begin + len(new)] = new
        self.operations += 1
        return True

    def _erase(self, _, offset):
        assert offset % self.sector == 0
        assert offset + self.sector <= len(self.cells)
        return self._operate(offset, b"\xff" * self.sector)

    def _program(self, _, offset, data):
        assert offset % self.unit == 0
        assert offset + self.unit <= len(self.cells)
        old = self.cells[offset : offset + self.unit]
        new = bytes(a & b for a, b in zip(old, ctypes.string_at(data, self.unit), strict=True))
        return self._operate(offset, new)

    def _read(self, _, offset, data, size):
        assert offset + size <= len(self.cells)
        ctypes.memmove(data, bytes(self.cells[offset : offset + size]), size)
        return True

    def _shim(self):
        return _Shim(_ERASE(self._erase), _PROGRAM(self._program), _READ(self._read),
                     self.sector, self.unit, self.slot, self.model)  # fmt: skip

    def save(self, payload):
        data = (ctypes.c_uint8 * max(len(payload), 1)).from_buffer_copy(payload or b"\0")
        return self.library.shim_save(ctypes.byref(self._shim()), data, len(payload))

    def load(self, size):
        data, sequence = (ctypes.c_uint8 * max(size, 1))(), ctypes.c_uint32()
        status = self.library.shim_load(
            ctypes.byref(self._shim()), data, size, ctypes.byref(sequence)
        )
        return status, bytes(data)[:size], sequence.value


def payload_of(seed, size=600):
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8).tobytes()


CUTS = {
    "before": lambda size: (0, 0),
    "half": lambda size: (size // 2, 0),
    "half then noise": lambda size: (size // 2, size - size // 2),
    "noise": lambda size: (0, size),
    "after": lambda size: (size, 0),
}


def test_a_cut_at_every_flash_operation_leaves_the_old_or_the_new_state(library):
    probe = Flash(library)
    for seed in range(4):
        assert probe.save(payload_of(seed)) == OK
    total = probe.operations // 4
    assert total == 3 + 19 + 1  # sectors erased, units of payload, header
    survived = 0
    for saves_before in (0, 1, 2, 3):
        for cut in range(total):
            for torn in CUTS.values():
                flash = Flash(library)
                for seed in range(saves_before):
                    assert flash.save(payload_of(seed)) == OK
                flash.cut_at, flash.torn = flash.operations + cut, torn
                assert flash.save(payload_of(99)) == FLASH
                flash.cut_at = None
                status, found, _ = flash.load(600)
                allowed = [(OK, payload_of(99))]
                if saves_before:
                    allowed.append((OK, payload_of(saves_before - 1)))
                else:
                    allowed.append((EMPTY, bytes(600)))
                assert (status, found) in allowed, (saves_before, cut)
                # And the store still works.
                assert flash.save(payload_of(7)) == OK
                assert flash.load(600)[1] == payload_of(7)
                survived += 1
    assert survived == 4 * total * len(CUTS) == 460


def test_saves_alternate_and_the_newest_wins_across_the_wrap_of_the_sequence(library):
    flash = Flash(library)
    for seed in range(5):
        assert flash.save(payload_of(seed)) == OK
        assert flash.load(600) == (OK, payload_of(seed), seed + 1)
    # Both slots rewritten with numbers around 2^32.
    for slot, number in ((0, 0xFFFFFFFF), (1, 0xFFFFFFFE)):
        at = slot * 1024
        flash.cells[at + 16 : at + 20] = number.to_bytes(4, "little")
        crc = zlib.crc32(bytes(flash.cells[at : at + 28]))
        flash.cells[at + 28 : at + 32] = crc.to_bytes(4, "little")
    assert flash.save(payload_of(50)) == OK
    assert flash.load(600) == (OK, payload_of(50), 0)


def test_refusals_name_what_was_found(library):
    flash = Flash(library)
    assert flash.load(600)[0] == EMPTY
    assert flash.save(payload_of(1, 1024)) == TOO_LARGE
    assert flash.save(payload_of(1)) == OK
    assert flash.load(599)[0] == OTHER_SIZE
    other = Flash(library, model=1, image=flash.cells)
    assert other.load(600)[0] == OTHER_MODEL
    assert library.shim_text(OTHER_MODEL) == b"checkpoint of another model"
    assert other.save(payload_of(2)) == OK
    assert other.load(600)[1] == payload_of(2)
    assert Flash(library, sector=250).save(b"x") == BAD_STORE
    newer = bytearray(b"\xff" * 2048)
    newer[:24] = b"".join(v.to_bytes(4, "little") for v in (0x54434B50, 2, 0, MODEL, 1, 0))
    newer[24:28] = bytes(4)
    newer[28:32] = zlib.crc32(bytes(newer[:28])).to_bytes(4, "little")
    assert Flash(library, image=newer).load(600)[0] == NEWER
    with pytest.raises(CheckpointError, match="newer"):
        CheckpointStore(newer, model_hash=MODEL, program_bytes=32).load()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.binary(min_size=1, max_size=700)), max_size=6))
def test_cpp_and_python_read_each_others_slots(library, writes):
    for unit in (1, 8, 256):
        flash = Flash(library, unit=unit)
        for by_python, payload in writes:
            twin = CheckpointStore(flash.cells, model_hash=MODEL, program_bytes=unit)
            if by_python:
                twin.save(payload)
                flash.cells = twin.image
            else:
                assert flash.save(payload) == OK
                twin = CheckpointStore(flash.cells, model_hash=MODEL, program_bytes=unit)
            status, found, sequence = flash.load(len(payload))
            assert (status, found) == (OK, payload)
            assert twin.load() == (payload, sequence)


def test_python_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="even number"):
        CheckpointStore(bytes(100), model_hash=0, program_bytes=32)
    store = CheckpointStore(b"\xff" * 2048, model_hash=0, program_bytes=32)
    with pytest.raises(CheckpointError, match="empty or torn"):
        store.load()
    with pytest.raises(CheckpointError, match="at most 992"):
        store.save(bytes(993))
    store.save(b"abc")
    with pytest.raises(CheckpointError, match="use the .tflite"):
        CheckpointStore(store.image, model_hash=1, program_bytes=32).load()
