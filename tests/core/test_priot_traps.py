"""Errors that public codes of this family contain, each made impossible."""

import numpy as np
import pytest

from tflm_train import _native

NONE = (np.zeros(0, np.uint8), np.zeros(0, np.uint16))


def one_edge(weight, x, error, score, threshold=-64, shift=0):
    after, *_ = _native.priot_update(
        "dense", [1, 1], np.array([x], np.int8), np.array([error], np.int8),
        np.array([weight], np.int8), True, 0, np.array([score], np.int8), *NONE, threshold,
        shift, 4, 0,
    )  # fmt: skip
    return int(after[0])


def test_a_positive_error_lowers_the_score_of_an_edge_that_caused_it():
    # W = 10, x = 1, err = +5: dS = 50, the score falls by 50 >> 0 clamped at 127.
    assert one_edge(10, 1, 5, 0) == -50
    assert one_edge(-10, 1, 5, 0) == 50


def test_training_one_weight_descends():
    # NITI on one weight towards logit 1 against 0: the right class's logit must rise.
    net = _native.PriotNet([("dense", [1, 2], False)])
    net.set_weights(0, np.array([0, 0], np.int8))
    net.set_shifts(0, -7, 5, 0, 12)
    x, y = np.array([[100]], np.int8), np.array([0], np.int32)
    before = net.evaluate(x, y)["loss"]
    for _ in range(30):
        net.train(x, y, np.array([0], np.int32), 1)
    assert net.evaluate(x, y)["loss"] < before
    right, wrong = net.get_weights(0)
    assert right > 0 > wrong


def test_a_pruned_edge_still_learns_and_can_come_back():
    # The update uses the unmasked weight: with the masked one dS would be 0 for good.
    assert one_edge(100, 1, -1, -70, shift=2) == -45


def test_scores_and_steps_saturate_and_never_wrap():
    assert one_edge(127, 127, 127, -100) == -128
    assert one_edge(127, 127, -127, 100) == 127


def test_an_edge_without_a_score_is_never_pruned():
    weights = np.array([11, 22, 33], np.int8)
    scored = np.packbits(np.array([0, 1, 0]), bitorder="little")
    out = _native.priot_forward(
        "dense", [3, 1], np.ones(3, np.int8), weights, np.zeros(0, np.int32), True, 1,
        np.array([-128], np.int8), scored, NONE[1], 0, 0, 4, -128, 0,
    )  # fmt: skip
    assert out.tolist() == [44]


def test_a_score_at_the_threshold_keeps_its_edge():
    for score, expected in ((-64, 22), (-65, 0)):
        out = _native.priot_forward(
            "dense", [1, 1], np.ones(1, np.int8), np.array([22], np.int8), np.zeros(0, np.int32),
            True, 0, np.array([score], np.int8), *NONE, -64, 0, 4, -128, 0,
        )  # fmt: skip
        assert out.tolist() == [expected]


def test_a_fully_pruned_layer_puts_out_its_requantised_bias():
    bias = np.array([640, -640, 5], np.int32)
    out = _native.priot_forward(
        "dense", [4, 3], np.full(4, 99, np.int8), np.full(12, 77, np.int8), bias, True, 0,
        np.full(12, -65, np.int8), *NONE, -64, 6, 4, -128, 0,
    )  # fmt: skip
    assert out.tolist() == [10, -10, 0]


def test_weights_stay_frozen_under_priot_and_scores_absent_under_niti():
    net = _native.PriotNet([("dense", [8, 3], False)])
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, 24).astype(np.int8)
    net.set_weights(0, weights)
    net.set_bias(0, np.array([7, 8, 9], np.int32))
    net.set_scores(0, np.zeros(24, np.int8), np.zeros(0, np.uint8), -64)
    net.set_shifts(0, -7, 5, 0, 9)
    x = rng.integers(0, 128, (20, 8)).astype(np.int8)
    net.train(x, rng.integers(0, 3, 20).astype(np.int32), np.arange(20, dtype=np.int32), 1)
    np.testing.assert_array_equal(net.get_weights(0), weights)
    assert np.any(net.get_scores(0))


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_layers_of_equal_shape_draw_different_rounding_noise(seed):
    from tflm_train.priot import _reference as ref

    first = ref.rng_words(ref.rng_key(seed, 0, 0, "update"), 64)
    second = ref.rng_words(ref.rng_key(seed, 0, 1, "update"), 64)
    third = ref.rng_words(ref.rng_key(seed, 1, 0, "update"), 64)
    assert not np.any(first == second)
    assert not np.any(first == third)
