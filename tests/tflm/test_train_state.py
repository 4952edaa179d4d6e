"""A device's checkpoint goes back into the model."""

import struct

import numpy as np
import pytest
from tflm_nets import Twin, priot_model

from converters.errors import CheckpointError
from converters.priot_format import pack_scores
from converters.train_state import apply_state
from tflm_train._checkpoint_store import CheckpointStore
from tflm_train.priot import PriotTrainer

FORMS = [
    {},
    {"method": "priot-s", "scored": 0.5},
    {"method": "priot-s", "scored": 0.02},
    {"method": "niti"},
]


@pytest.mark.parametrize("form", FORMS)
def test_a_checkpoint_continues_on_the_host_where_the_device_stood(form):
    raw = priot_model(**form)
    twin = Twin(raw)
    rng = np.random.default_rng(2)
    for label in rng.integers(0, 10, 8):
        twin.line(rng.integers(0, 128, 180).astype(np.int8), int(label), 0)
    payload = struct.pack("<8i", 1, 8, 0, 1, 0, 0, 0, 0)
    for i, layer in twin.trainer._weighted:
        if layer.scores is None:
            payload += twin.trainer._core.get_weights(i).tobytes()
        else:
            layer.scores = twin.trainer._core.get_scores(i)
            payload += pack_scores(layer)[1].astype(np.int8).tobytes()
    store = CheckpointStore(b"\xff" * 32768, model_hash=1, program_bytes=256)
    store.save(payload)
    moved, steps = apply_state(raw, store.load()[0])
    assert steps == 8
    assert moved == twin.trainer.model_bytes() != raw
    assert PriotTrainer(moved).model_bytes() == moved


def test_bytes_of_another_model_are_refused():
    with pytest.raises(CheckpointError, match="for this model"):
        apply_state(priot_model(), bytes(100))
    unchanged, steps = apply_state(priot_model(), bytes(32 + sum(PACKED)))
    assert steps == 0
    assert len(unchanged) == len(priot_model())


PACKED = [90, 720, 16 * 6 * 21, 210]
