"""The three-stage procedure: float warm-up, calibration with 25 batches, int8 with headroom."""

import numpy as np
import pytest

from converters import three_stage
from converters.errors import TflmTrainError
from converters.flatbuffer import read_model
from converters.training_info import read_training_info


@pytest.fixture(scope="module")
def task(keras):
    """Two separable classes in raw units of 0 to 255, and a fresh classifier."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1200)
    x = np.clip(rng.normal(128, 30, (1200, 6)) + 40 * (2 * y[:, None] - 1), 0, 255).astype(np.uint8)
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((6,), name="x"),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(2, activation="softmax", name="head"),
        ]
    )
    return model, x, y


_NORMALIZATION = {"scale": 1 / 255, "offset": 0.0}


@pytest.fixture(scope="module")
def result(task):
    model, x, y = task
    before = [w.copy() for w in model.get_weights()]
    calls = []
    found = three_stage(
        model,
        x,
        y,
        target_accuracy=0.9,
        learning_rate=0.01,
        normalization=_NORMALIZATION,
        labels=["low", "high"],
        progress=lambda stage, done, total: calls.append(stage),
    )
    return found, before, calls


def test_the_warm_up_stops_at_the_target_and_leaves_the_model_alone(task, result):
    found, before, calls = result
    assert found.reached
    assert found.history[-1] >= 0.9 > max(found.history[:-1])
    for old, new in zip(before, task[0].get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    assert {"float warm-up", "calibration"} == set(calls)


def test_calibration_takes_25_batches_and_the_head_gets_room(result):
    info = read_training_info(read_model(result[0].model_bytes))
    assert info.calibration["samples"] == 25 * 32
    assert info.options["weight_headroom"] == 4.0
    assert 1 <= info.options["logit_headroom"] <= 2
    assert info.labels == ("low", "high")
    assert info.normalization == _NORMALIZATION
    assert [t.layer for t in info.trainable] == ["head"]


def test_the_int8_model_keeps_the_accuracy_of_the_warm_model(task, result, opened):
    _, x, y = task
    scaled = x[:200].astype(np.float32) / 255
    warm = result[0].float_model.predict(scaled, verbose=0).argmax(1)
    int8 = opened(result[0].model_bytes).run(scaled).argmax(1)
    assert np.mean(int8 == y[:200]) >= np.mean(warm == y[:200]) - 0.03


def test_a_target_out_of_reach_is_reported(task, caplog):
    model, x, y = task
    labels = np.random.default_rng(1).permutation(y)
    found = three_stage(
        model, x, labels, target_accuracy=1.0, max_epochs=1, normalization=_NORMALIZATION
    )
    assert not found.reached
    assert "below the target 1.0000" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"target_accuracy": 2},
        {"target_accuracy": 0.9, "calibration_batches": 0},
        {"target_accuracy": 0.9, "batch_size": 0},
        {"target_accuracy": 0.9, "validation_fraction": 1.0},
    ],
)
def test_options_out_of_range_are_refused(task, options):
    with pytest.raises(TflmTrainError, match="Expected"):
        three_stage(*task, **options)


def test_unequal_lengths_nan_and_paths_are_refused(task):
    model, x, y = task
    with pytest.raises(TflmTrainError, match="labels"):
        three_stage(model, x, y[:-1], target_accuracy=0.5)
    bad = x.astype(np.float32)
    bad[3, 1] = np.nan
    with pytest.raises(TflmTrainError, match="sample 3"):
        three_stage(model, bad, y, target_accuracy=0.5)
    with pytest.raises(TflmTrainError, match="Keras model object"):
        three_stage("m.h5", x, y, target_accuracy=0.5)
