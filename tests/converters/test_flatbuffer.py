"""Foreign bytes are read whole or refused; what is written reads back."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.errors import ModelFormatError
from converters.flatbuffer import constant, read_model, set_constant, write_model
from converters.training_info import TrainingInfo, read_training_info


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "no TFL3 identifier"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "no TFL3 identifier"),
        (b"\x1c\x00\x00\x00TFL3", "truncated or damaged"),
    ],
)
def test_what_is_no_tflite_file_is_refused(raw, message):
    with pytest.raises(ModelFormatError, match=message):
        read_model(raw)


def test_a_truncated_model_is_refused_at_every_length(small_int8):
    raw = small_int8.raw
    for length in range(8, len(raw) - 16, 97):
        with pytest.raises(ModelFormatError):
            read_model(raw[:length])


def test_a_model_repacks_to_the_same_bytes_again_and_again(small_int8):
    once = write_model(read_model(small_int8.raw))
    assert once == small_int8.raw


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_byte_gives_a_model_or_a_typed_refusal(small_int8, data):
    raw = bytearray(small_int8.raw)
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] = data.draw(st.integers(0, 255))
    try:
        read_training_info(read_model(bytes(raw)))
    except ModelFormatError:
        pass


def test_a_constant_changes_only_in_kind(small_int8):
    model = read_model(small_int8.raw)
    tensor = next(t for t in model.subgraphs[0].tensors if t.name == b"head/kernel")
    values = constant(model, tensor)
    set_constant(model, tensor, -values)
    again = read_model(write_model(model))
    found = next(t for t in again.subgraphs[0].tensors if t.name == b"head/kernel")
    np.testing.assert_array_equal(constant(again, found), -values)
    for wrong in (values[:-1], values.astype(np.int16)):
        with pytest.raises(ValueError, match="head/kernel"):
            set_constant(model, tensor, wrong)


def test_a_training_entry_round_trips(small_int8):
    assert TrainingInfo.from_json(small_int8.info.to_json()) == small_int8.info


@pytest.mark.parametrize("raw", [b"", b"{}", b"[1]", b'{"version": 99, "trainable": []}', b"\xff"])
def test_a_damaged_training_entry_is_refused(raw):
    with pytest.raises(ModelFormatError):
        TrainingInfo.from_json(raw)


def _fixed_model():
    """A small model built here, so that its bytes depend on the packing code alone."""
    model = schema.ModelT()
    model.version = 3
    model.description = b"fixed"
    model.buffers = [schema.BufferT() for _ in range(3)]
    model.buffers[1].data = np.arange(12, dtype=np.uint8)
    model.buffers[2].data = np.arange(12, dtype=np.int32).view(np.uint8)
    graph = schema.SubGraphT()
    graph.tensors = []
    for number, (shape, kind) in enumerate(
        [([1, 4], schema.TensorType.INT8), ([3, 4], schema.TensorType.INT8), ([12], 2)]
    ):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = f"t{number}".encode(), shape, kind
        tensor.buffer = number
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = np.array([0.5 + number], np.float32)
        tensor.quantization.zeroPoint = np.array([number], np.int64)
        graph.tensors.append(tensor)
    graph.inputs, graph.outputs, graph.operators = [0], [0], []
    model.subgraphs = [graph]
    model.operatorCodes = []
    return model


_PACK_SHA = "7ae74d34bd2507bc"


def test_this_flatbuffers_release_packs_the_bytes_every_release_packs():
    assert hashlib.sha256(write_model(_fixed_model())).hexdigest()[:16] == _PACK_SHA


@pytest.mark.nightly
@pytest.mark.parametrize("release", ["24.3.25", "25.12.19"])
def test_the_oldest_and_the_newest_allowed_flatbuffers_pack_the_same_bytes(tmp_path, release):
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path)]
    done = subprocess.run([*install, f"flatbuffers=={release}"], capture_output=True, timeout=300)
    if done.returncode:
        pytest.skip(f"flatbuffers {release} cannot be fetched here")
    code = (
        f"import runpy; m = runpy.run_path({__file__!r}); import hashlib, flatbuffers; "
        "print(flatbuffers.__version__, "
        "hashlib.sha256(m['write_model'](m['_fixed_model']())).hexdigest()[:16])"
    )
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([str(tmp_path), root])
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert found.stdout.split() == [release, _PACK_SHA], found.stderr[-500:]
