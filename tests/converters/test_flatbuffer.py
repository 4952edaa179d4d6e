"""Foreign bytes are read whole or refused; what is written reads back."""

import flatbuffers
import numpy as np
import pytest
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
    assert flatbuffers.__version__ is not None


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
