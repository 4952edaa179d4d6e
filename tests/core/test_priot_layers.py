"""The device kernels, layer by layer, against the NumPy reference in every score storage."""

import sys
from pathlib import Path

import numpy as np
import pytest

from converters.priot_format import pack_scores
from converters.priot_net import CONV_SIZES, DENSE_SIZES, PriotLayer
from tflm_train import _native
from tflm_train.priot import _reference as ref

sys.path.insert(0, str(Path(__file__).parent))
from priot_nets import conv  # noqa: E402

KEY = int(ref.rng_key(1, 2, 0, "update"))
SHAPES = {
    "conv 3x3 same": conv(5, 6, 3, 4)[0],
    "conv stride 2": conv(7, 6, 4, 5, stride=2)[0],
    "conv valid 2x2": conv(5, 5, 2, 3, kernel=2, same=False)[0],
    "depthwise": conv(5, 4, 3, 6, depthwise=True)[0],
    "depthwise stride 2": conv(6, 6, 4, 4, depthwise=True, stride=2)[0],
    "dense": ("dense", [37, 5], True),
    "dense 1": ("dense", [1, 2], True),
}


def make(name, rng, storage):
    """A layer with random parameters; `storage` none, dense, bitmask or index_list."""
    kind, sizes, relu = SHAPES[name]
    names = DENSE_SIZES if kind == "dense" else CONV_SIZES
    layer = PriotLayer(kind, dict(zip(names, sizes, strict=True)), name, relu=relu)
    size = layer.rows * layer.row_size
    layer.weights = rng.integers(-127, 128, size).astype(np.int8)
    layer.threshold = -5
    if storage != "none":
        layer.scores = rng.integers(-40, 41, size).astype(np.int8)
    if storage in ("bitmask", "index_list"):
        share = 0.3 if storage == "bitmask" else 0.03
        layer.scored = rng.random(size) < share
        layer.scored[rng.integers(size)] = True
        layer.scores = np.where(layer.scored, layer.scores, 0).astype(np.int8)
    return layer, list(sizes)


def storage_arguments(layer, storage):
    """masked, storage, scores, scored, places, threshold: as the native functions take them."""
    none8, none16 = np.zeros(0, np.uint8), np.zeros(0, np.uint16)
    if storage == "none":
        return (False, 0, np.zeros(0, np.int8), none8, none16, 0)
    if storage == "dense":
        return (True, 0, layer.scores, none8, none16, layer.threshold)
    packed = layer.scores[layer.scored]
    if storage == "bitmask":
        bits = np.packbits(layer.scored, bitorder="little")
        return (True, 1, packed, bits, none16, layer.threshold)
    rows = layer.scored.reshape(layer.rows, layer.row_size)
    places = np.concatenate([rows.sum(1), np.nonzero(rows)[1]]).astype(np.uint16)
    return (True, 2, packed, none8, places, layer.threshold)


def kernel(layer, flat):
    s = layer.sizes
    if layer.kind == "dense":
        return flat.reshape(s["outputs"], -1)
    if layer.kind == "conv":
        return flat.reshape(s["out_channels"], s["kernel_height"], s["kernel_width"], -1)
    return flat.reshape(s["kernel_height"], s["kernel_width"], -1)


def reference(layer, x, error):
    """(forward sums, backward sums, weight gradient) through the masked weights."""
    s = layer.sizes
    w = kernel(layer, layer.effective().astype(np.int64))
    if layer.kind == "dense":
        return w @ x, error @ w, np.outer(error, x).ravel()
    x = x.reshape(s["in_height"], s["in_width"], -1)
    error = error.reshape(s["out_height"], s["out_width"], -1)
    if layer.kind == "conv":
        parts = ref.conv(x, w, s), ref.conv_backward(error, w, s), ref.conv_gradient(x, error, s)
    else:
        parts = (
            ref.depthwise(x, w, s),
            ref.depthwise_backward(error, w, s),
            ref.depthwise_gradient(x, error, s),
        )
    return tuple(p.ravel() for p in parts)


@pytest.mark.parametrize("storage", ["none", "dense", "bitmask", "index_list"])
@pytest.mark.parametrize("name", SHAPES)
def test_device_kernels_equal_the_reference(name, storage):
    rng = np.random.default_rng(sum(map(ord, name + storage)))
    layer, sizes = make(name, rng, storage)
    arguments = storage_arguments(layer, storage)
    out_size = int(np.prod(layer.out_shape))
    x = rng.integers(-128, 128, layer.in_size).astype(np.int8)
    error = (rng.integers(-127, 128, out_size) * (rng.random(out_size) < 0.5)).astype(np.int8)
    bias = rng.integers(-900, 900, layer.out_shape[-1]).astype(np.int32)
    sums, back, gradient = reference(layer, x.astype(np.int64), error.astype(np.int64))
    sums = (sums.reshape(-1, len(bias)) + bias).ravel()
    for mode, number in zip(ref.ROUNDING_MODES, range(5), strict=True):
        found = _native.priot_forward(
            layer.kind, sizes, x, layer.weights, bias, *arguments, 8, number, 0, KEY
        )
        expected = ref.requantize(sums, 8, mode, 0, 127, KEY)
        np.testing.assert_array_equal(found, expected, f"forward {mode}")
        found = _native.priot_backward(
            layer.kind, sizes, error, layer.weights, *arguments, 7, number, KEY
        )
        expected = ref.requantize(back, 7, mode, key=KEY)
        np.testing.assert_array_equal(found, expected, f"backward {mode}")
        check_update(layer, sizes, x, error, gradient, arguments, mode, number)
    largest = _native.priot_gradient_max(layer.kind, sizes, x, error)
    assert largest == np.abs(gradient).max()


def check_update(layer, sizes, x, error, gradient, arguments, mode, number):
    shift = 6 if layer.scores is None else 12
    after, pruned, restored, _ = _native.priot_update(
        layer.kind, sizes, x, error, layer.weights, *arguments, shift, number, KEY
    )
    if layer.scores is None:
        step = ref.weight_step(gradient, shift, mode, KEY)
        np.testing.assert_array_equal(after, np.clip(layer.weights - step, -127, 127), mode)
        return
    step = ref.score_step(layer.weights, gradient, shift, mode, KEY)
    scored = np.ones(len(step), bool) if layer.scored is None else layer.scored
    expected = np.clip(layer.scores - step, -128, 127)
    np.testing.assert_array_equal(after, expected[scored], mode)
    below = (layer.scores < layer.threshold)[scored]
    now_below = (expected < layer.threshold)[scored]
    assert (pruned, restored) == (np.sum(now_below & ~below), np.sum(below & ~now_below))


def test_the_smallest_storage_is_chosen():
    rng = np.random.default_rng(0)
    layer, _ = make("dense", rng, "bitmask")
    assert pack_scores(layer)[0] == 1
    layer.scored[:] = False
    layer.scored[3] = True
    assert pack_scores(layer)[0] == 2
    layer.scored = None
    assert pack_scores(layer)[0] == 0


def test_clamping_keeps_the_largest_accumulator_at_shift_zero():
    x, w = np.array([1], np.int8), np.array([127, -127], np.int8)
    bias = np.array([1, -1], np.int32)
    arguments = storage_arguments(None, "none")
    out = _native.priot_forward("dense", [1, 2], x, w, bias, *arguments, 0, 4, -128, 0)
    assert out.tolist() == [127, -128]


def test_convolution_scores_saturate_above_a_thousand_positions():
    spec = conv(40, 40, 1, 1)[0]
    x, error = np.full(1600, 127, np.int8), np.full(1600, 127, np.int8)
    weights, scores = np.full(9, 127, np.int8), np.zeros(9, np.int8)
    none8, none16 = np.zeros(0, np.uint8), np.zeros(0, np.uint16)
    after, *_ = _native.priot_update(
        "conv", spec[1], x, error, weights, True, 0, scores, none8, none16, -64, 25, 0, 0
    )
    # 127 * 127 * 1600 * 127 exceeds int32: saturated it is (2^31 - 1) / 2^25 = 64, else 98.
    assert after[4] == -64
