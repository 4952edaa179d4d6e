"""Frames over a byte stream."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflm_train._firmware.protocol import Client, ProtocolError, decode, encode

KINDS = st.sampled_from("IPDTSLCEKRQ!")


def reader(data):
    stream = io.BytesIO(data)

    def read(count):
        part = stream.read(count)
        if len(part) < count:
            raise EOFError
        return part

    return read


@given(KINDS, st.binary(max_size=300), st.binary(max_size=8))
def test_a_frame_is_read_back_behind_any_noise(kind, payload, noise):
    noise = noise.replace(b"\xa5", b"\x00")
    assert decode(reader(noise + encode(kind, payload))) == (kind, payload)


@given(KINDS, st.binary(max_size=40), st.data())
def test_every_single_bit_error_behind_the_length_is_found(kind, payload, data):
    frame = bytearray(encode(kind, payload))
    position = data.draw(st.integers(4, len(frame) - 1))
    frame[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ProtocolError, match="CRC"):
        decode(reader(bytes(frame)))


def test_a_refusal_names_its_reason():
    client = Client(lambda data: None, reader(encode("!", b"\x03")))
    with pytest.raises(ProtocolError, match="a wrong length"):
        client.infer([1, 2])


def test_the_frame_layout_is_the_documented_one():
    # sync, type, length, payload, CRC-32 of type to payload
    assert encode("C").hex() == "a5430000" + "8bea9d8d"
    assert encode("E", bytes(8))[:4].hex() == "a5450800"
    assert len(encode("E", bytes(8))) == 4 + 8 + 4
