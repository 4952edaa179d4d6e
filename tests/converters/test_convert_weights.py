"""Weights: nothing stripped, headroom exact, the chosen tensors marked, scales of both kinds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters import convert
from converters import scales as scales_module
from converters.errors import ConversionError


def _real(result, name):
    values = result.values(name).astype(np.float64)
    scales = result.scales(name)
    return values * scales.reshape((-1,) + (1,) * (values.ndim - 1))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights": "per-channel"},
        {"trainable": "all", "weight_headroom": 4.0},
        {"scales": "power-of-two"},
        {"trainable": "bias"},
    ],
)
def test_dequantised_weights_stay_within_half_a_step_of_keras(small_cnn, converted, options):
    model, samples = small_cnn
    result = converted(model, calibration=samples, **options)
    for layer in ("conv", "hidden", "head"):
        kernel, bias = model.get_layer(layer).get_weights()
        kernel = kernel.transpose(3, 0, 1, 2) if layer == "conv" else kernel.T
        for name, expected in ((f"{layer}/kernel", kernel), (f"{layer}/bias", bias)):
            scales = result.scales(name)
            bound = scales.reshape((-1,) + (1,) * (expected.ndim - 1)) / 2 * (1 + 1e-6) + 1e-9
            assert np.all(np.abs(_real(result, name) - expected) <= bound), name


@pytest.mark.parametrize("headroom", [1.0, 2.0, 4.0])
def test_trainable_weights_reach_126_over_the_headroom_and_no_more(small_cnn, converted, headroom):
    model, samples = small_cnn
    result = converted(model, calibration=samples, weight_headroom=headroom)
    peak = np.abs(model.get_layer("head").get_weights()[0]).max()
    assert result.scales("head/kernel")[0] == pytest.approx(peak * headroom / 126, rel=1e-6)
    assert np.abs(result.values("head/kernel")).max() == round(126 / headroom)
    # Frozen layers keep the whole range.
    assert np.abs(result.values("hidden/kernel").astype(int)).max() == 127
    assert result.info.options["weight_headroom"] == headroom
    assert result.info.trainable[0].limit == 126


def test_logit_headroom_widens_the_logits_alone(small_cnn, small_int8, converted):
    model, samples = small_cnn
    result = converted(model, calibration=samples, logit_headroom=2.0)
    for name in ("image", "conv/conv_2d", "hidden/fully_connected", "head/softmax"):
        assert result.scales(name)[0] == small_int8.scales(name)[0]
    wide, plain = result.scales("head/fully_connected"), small_int8.scales("head/fully_connected")
    assert wide[0] == pytest.approx(2 * plain[0], rel=1e-6)
    assert result.zero_point("head/fully_connected") == small_int8.zero_point(
        "head/fully_connected"
    )


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("last", ["head/kernel"]),
        ("last:2", ["hidden/kernel", "head/kernel"]),
        ("all", ["conv/kernel", "hidden/kernel", "head/kernel"]),
        ("conv,head", ["conv/kernel", "head/kernel"]),
        (" hidden ", ["hidden/kernel"]),
        ("bias", ["conv/bias", "hidden/bias", "head/bias"]),
        ("bias:last", ["head/bias"]),
        ("bias:last:2", ["hidden/bias", "head/bias"]),
        ("bias:conv", ["conv/bias"]),
    ],
)
def test_the_trainable_option_marks_what_it_names(small_cnn, converted, spec, names):
    model, samples = small_cnn
    info = converted(model, calibration=samples, trainable=spec).info
    assert [t.name for t in info.trainable] == names
    assert [
        f"{t.layer}/{'bias' if t.kind == 'bias' else 'kernel'}" for t in info.trainable
    ] == names
    for item in info.trainable:
        assert item.limit == 126 if item.kind == "weight" else item.limit > 2**29


def test_a_layer_without_bias_gets_a_zero_one_to_train(keras, converted):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="d", use_bias=False)])
    samples = np.random.default_rng(0).random((8, 4))
    assert (
        len([i for i in converted(model, calibration=samples).graph.operators[0].inputs if i >= 0])
        == 2
    )
    result = converted(model, calibration=samples, trainable="bias")
    np.testing.assert_array_equal(result.values("d/bias"), np.zeros(3, np.int32))
    assert result.info.trainable[0].name == "d/bias"


def test_a_layer_used_twice_is_one_trainable_tensor(keras, converted):
    shared = keras.layers.Dense(4, name="s", activation="relu", kernel_initializer="ones")
    x = keras.Input((4,))
    model = keras.Model(x, keras.layers.Dense(2, name="d")(shared(shared(x))))
    result = converted(model, calibration=np.random.default_rng(0).random((8, 4)), trainable="all")
    assert [t.name for t in result.info.trainable] == ["s/kernel", "d/kernel"]
    first, second, _ = result.graph.operators
    assert first.inputs[1] == second.inputs[1]


def test_power_of_two_scales_are_symmetric_with_zero_points_at_zero(small_cnn, converted):
    model, samples = small_cnn
    result = converted(model, calibration=samples, scales="power-of-two")
    for tensor in result.graph.tensors:
        quantization = tensor.quantization
        if quantization.scale is None or tensor.name == b"head/softmax":
            continue
        assert len(quantization.scale) == 1
        exponent = np.log2(np.float64(quantization.scale[0]))
        assert exponent == round(exponent)
        assert quantization.zeroPoint[0] == 0
    # Pixels in [0, 1] keep the exponent -7 of the integer-only recipe.
    assert result.scales("image")[0] == 2**-7
    assert result.zero_point("head/softmax") == -128


def test_power_of_two_models_still_classify_like_the_float_model(small_cnn, converted):
    model, samples = small_cnn
    found = converted(model, calibration=samples, scales="power-of-two").run(samples).argmax(1)
    assert np.mean(found == model.predict(samples, verbose=0).argmax(1)) >= 0.9


def test_a_model_without_weights_has_nothing_to_train(keras):
    model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.MaxPooling2D()])
    with pytest.raises(ConversionError, match="without constant weights"):
        convert(model, calibration=np.random.default_rng(0).random((4, 8, 8, 1)))


def test_nan_weights_are_refused(keras):
    layer = keras.layers.Dense(2, name="d")
    model = keras.Sequential([keras.Input((4,)), layer])
    layer.set_weights([np.full((4, 2), np.nan), np.zeros(2)])
    with pytest.raises(ValueError, match="d/fully_connected"):
        convert(model, calibration=np.random.default_rng(0).random((4, 4)))


def test_a_huge_bias_raises_the_weight_scale_instead_of_wrapping(keras, converted):
    layer = keras.layers.Dense(2, name="d")
    model = keras.Sequential([keras.Input((4,)), layer])
    layer.set_weights([np.full((4, 2), 1e-6), np.array([1000.0, -1000.0])])
    result = converted(model, calibration=np.random.default_rng(0).random((8, 4)) * 1e-3)
    np.testing.assert_allclose(
        result.values("d/bias") * result.scales("d/bias"), [1000, -1000], rtol=1e-3
    )


@settings(max_examples=200, deadline=None)
@given(
    st.floats(-1e6, 1e6, width=32), st.floats(-1e6, 1e6, width=32), st.booleans(), st.floats(1, 8)
)
def test_any_range_is_covered_and_zero_is_exact(a, b, power_of_two, headroom):
    low, high = min(a, b, 0.0), max(a, b, 0.0)
    if high - low < 1e-6:
        return
    found = scales_module.activation_quantization(
        low, high, power_of_two=power_of_two, headroom=headroom
    )
    assert 0 < found.scale < np.inf
    assert -128 <= found.zero_point <= 127
    # The topmost code may be lost to a power of two, and 0.01 % of the range with it.
    step = found.scale * 1.02
    assert (-128 - found.zero_point) * found.scale <= low * headroom + step
    assert (127 - found.zero_point) * found.scale >= high * headroom - step
    zero = scales_module.quantize_values(np.zeros(1), found)[0]
    assert zero == found.zero_point


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 0]), st.booleans(), st.floats(1, 8))
def test_weights_come_back_within_half_a_step(seed, axis, power_of_two, headroom):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(3, 5)) * 10.0 ** rng.integers(-6, 6)
    scales = scales_module.weight_scales(
        weights, axis, limit=126, headroom=headroom, power_of_two=power_of_two, empty=1.0
    )
    codes = scales_module.quantize_weights(weights, scales, axis, 126)
    shape = (-1, 1) if axis == 0 else (1, 1)
    assert np.abs(codes).max() <= 126
    assert np.all(np.abs(codes * scales.reshape(shape) - weights) <= scales.reshape(shape) * 0.5001)
