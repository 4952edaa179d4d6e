"""The host trainer against its NumPy twin, bit for bit, portable and with AVX2."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tflm_train import _native
from tflm_train.priot._reference import ROUNDING_MODES

sys.path.insert(0, str(Path(__file__).parent))
from priot_nets import assert_same, build, conv, small_net  # noqa: E402

FORMS = {
    "masked": {},
    "paper": {"masked_backward": False},
    "dynamic": {"dynamic_forward": True, "dynamic_backward": True, "dynamic_update": True},
}


def train_both(specs, *, batch=1, samples=6, signed=False, **settings):
    rng = np.random.default_rng(11)
    native, twin = build(specs, rng, seed=7, **settings)
    size = twin.layers[0].sizes
    shape = (samples, size["in_height"] * size["in_width"] * size["in_channels"])
    x = rng.integers(-128 if signed else 0, 128, shape).astype(np.int8)
    y = rng.integers(0, 10, samples).astype(np.int32)
    for begin in range(0, samples, batch):
        order = np.arange(begin, min(begin + batch, samples), dtype=np.int32)
        native.train(x, y, order, batch)
        twin.train_step([(x[i], y[i]) for i in order])
        assert_same(native, twin, f"{settings} sample {begin}")
    return native, twin


@pytest.mark.parametrize("portable", [True, False], ids=["portable", "vector"])
@pytest.mark.parametrize("scores", [None, "dense", "sparse"], ids=["niti", "priot", "priot-s"])
@pytest.mark.parametrize("form", FORMS)
def test_training_steps_equal_the_reference(portable, scores, form):
    for mode in ROUNDING_MODES:
        train_both(
            small_net(), portable=portable, scores=scores, bias=form != "dynamic",
            forward=mode, backward=mode, update=mode, **FORMS[form],
        )  # fmt: skip


@pytest.mark.parametrize("portable", [True, False], ids=["portable", "vector"])
def test_depthwise_layers_and_overlapping_pools_equal_the_reference(portable):
    specs = small_net(channels=(16, 20), depthwise=True, overlap=True)
    train_both(specs, portable=portable, signed=True)
    train_both(specs, portable=portable, scores="sparse", update="stochastic")


@pytest.mark.parametrize("portable", [True, False], ids=["portable", "vector"])
@pytest.mark.parametrize("scores", [None, "dense"])
def test_batches_sum_their_gradients_before_one_update(portable, scores):
    train_both(small_net(), portable=portable, scores=scores, batch=4, samples=10)


def test_vector_lengths_around_every_tail_equal_the_reference():
    for channels in (1, 7, 8, 15, 16, 17, 31, 33):
        spec, (h, w, c) = conv(4, 5, 3, channels)
        specs = [spec, ("dense", [h * w * c, channels], True), ("dense", [channels, 10], False)]
        train_both(specs, samples=3, signed=True)


def test_more_than_a_thousand_positions_saturate_alike():
    spec, (h, w, c) = conv(36, 36, 1, 2)
    train_both([spec, ("dense", [h * w * c, 10], False)], samples=3)


def test_edge_popup_keeps_the_best_share_of_the_scores():
    rng = np.random.default_rng(0)
    native, _ = build([("dense", [50, 20], True), ("dense", [20, 4], False)], rng)
    native.configure({"kept_permille": 300})
    x = rng.integers(0, 128, (40, 50)).astype(np.int8)
    y = rng.integers(0, 4, 40).astype(np.int32)
    native.train(x, y, np.arange(40, dtype=np.int32), 1)
    scores, weights = native.get_scores(0), native.get_weights(0)
    threshold = native.threshold(0)
    assert np.sum(scores >= threshold) >= 300 > np.sum(scores > threshold)
    np.testing.assert_array_equal(native.get_effective(0), np.where(scores < threshold, 0, weights))


def test_the_average_of_the_scores_follows_them():
    rng = np.random.default_rng(0)
    native, _ = build([("dense", [50, 20], True), ("dense", [20, 4], False)], rng)
    native.configure({"average_every": 1, "average_shift": 2})
    expected = native.get_scores(0).astype(np.int64) * 256
    x = rng.integers(0, 128, (8, 50)).astype(np.int8)
    y = rng.integers(0, 4, 8).astype(np.int32)
    for i in range(8):
        native.train(x, y, np.array([i], np.int32), 1)
        expected += (native.get_scores(0).astype(np.int64) * 256 - expected + 2) >> 2
    np.testing.assert_array_equal(native.get_average(0), expected)


def test_malformed_nets_and_data_are_refused():
    with pytest.raises(ValueError, match="to take"):
        _native.PriotNet([("dense", [4, 3], True), ("dense", [5, 2], False)])
    with pytest.raises(ValueError, match="ReLU"):
        _native.PriotNet([("dense", [4, 3], True)])
    with pytest.raises(ValueError, match="windows"):
        _native.PriotNet([("conv", [4, 4, 1, 9, 9, 2, 3, 3, 1, 1, 1, 1], True)])
    net = _native.PriotNet([("dense", [4, 3], False)])
    x = np.zeros((2, 4), np.int8)
    with pytest.raises(ValueError, match="labels below 3"):
        net.train(x, np.array([0, 3], np.int32), np.array([0], np.int32), 1)
    with pytest.raises(ValueError, match="sample numbers"):
        net.train(x, np.array([0, 1], np.int32), np.array([2], np.int32), 1)
    with pytest.raises(ValueError, match="-127"):
        net.set_weights(0, np.full(12, -128, np.int8))
