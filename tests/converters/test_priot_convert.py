"""Keras models to power-of-two int8 files for the integer-only methods."""

import logging

import numpy as np
import pytest

from converters import convert
from converters.errors import CalibrationError, ConversionError, UnsupportedModelError
from converters.flatbuffer import op_name, read_model
from converters.priot_calibrate import calibrate
from converters.priot_convert import convert_priot
from converters.priot_freeze import freeze, runnable
from converters.priot_read import read_net
from converters.priot_write import write_net
from tflm_train import _native

keras = pytest.importorskip("keras")
layers = keras.layers


def small_model(*, norm=False, softmax=False, depthwise=False):
    body = [keras.Input((8, 9, 2), name="image")]
    body.append(layers.Conv2D(6, 3, padding="same", use_bias=not norm, name="conv"))
    if norm:
        body.append(layers.BatchNormalization(name="norm"))
    body += [layers.MaxPooling2D(name="pool"), layers.ReLU(name="relu")]
    if depthwise:
        body.append(layers.DepthwiseConv2D(3, padding="valid", activation="relu", name="depth"))
    body += [layers.Flatten(name="flatten"), layers.Dense(12, activation="relu", name="hidden")]
    body.append(layers.Dense(4, activation="softmax" if softmax else None, name="logits"))
    keras.utils.set_random_seed(1)
    model = keras.Sequential(body)
    for weights in model.weights:
        if weights.name in ("bias", "beta"):
            weights.assign(np.random.default_rng(0).normal(0, 0.05, weights.shape))
    return model


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    return rng.random((48, 8, 9, 2)).astype(np.float32), rng.integers(0, 4, 48)


@pytest.fixture(scope="module")
def models(samples):
    x, y = samples
    model = small_model()
    return model, {
        method: convert(model, calibration=x, targets=y, method=method)
        for method in ("priot", "priot-s", "niti")
    }


def ops(raw):
    model = read_model(raw)
    return [op_name(model, op) for op in model.subgraphs[0].operators]


def test_every_scale_is_a_power_of_two_with_zero_point_zero(models):
    for raw in models[1].values():
        for tensor in read_model(raw).subgraphs[0].tensors:
            if tensor.quantization is None:
                continue
            (scale,), (point,) = tensor.quantization.scale, tensor.quantization.zeroPoint
            assert np.log2(scale) == int(np.log2(scale))
            assert point == 0


def test_weights_are_the_keras_weights_within_half_a_step(models):
    model, files = models
    net, _ = read_net(files["priot"])
    for layer in net.weighted():
        kernel = model.get_layer(layer.name).kernel.numpy()
        order = (3, 0, 1, 2) if kernel.ndim == 4 else (1, 0)
        real = layer.weights * 2.0**layer.exponent
        assert np.max(np.abs(real - kernel.transpose(order).ravel())) <= 2.0**layer.exponent / 2


def test_masked_operators_carry_priot_and_builtin_ones_niti(models):
    masked = ["TFLM_TRAIN_MASKED_CONV_2D", "MAX_POOL_2D", "RESHAPE"]
    masked += ["TFLM_TRAIN_MASKED_FULLY_CONNECTED"] * 2
    builtin = ["CONV_2D", "MAX_POOL_2D", "RESHAPE", "FULLY_CONNECTED", "FULLY_CONNECTED"]
    assert ops(models[1]["priot"]) == ops(models[1]["priot-s"]) == masked
    assert ops(models[1]["niti"]) == builtin
    assert ops(freeze(models[1]["priot"])) == builtin


def test_reading_and_writing_gives_the_same_bytes(models):
    for raw in models[1].values():
        net, info = read_net(raw)
        assert write_net(net, info=info) == raw


def test_a_frozen_file_holds_pruned_weights_as_zeros_and_trains_no_more(models):
    net, _ = read_net(models[1]["priot"])
    net.layers[0].scores[:10] = -128
    _, info = read_net(models[1]["priot"])
    plain = freeze(write_net(net, info=info))
    assert runnable(plain) == plain
    graph = read_model(plain)
    weights = bytes(bytearray(graph.buffers[graph.subgraphs[0].tensors[1].buffer].data))
    assert np.frombuffer(weights, np.int8)[:10].tolist() == [0] * 10
    with pytest.raises(UnsupportedModelError, match="frozen"):
        read_net(plain)


def test_normalisation_layers_and_biases_are_folded_into_frozen_biases(samples):
    x, y = samples
    model = small_model(norm=True, softmax=True, depthwise=True)
    net, _ = read_net(convert_priot(model, calibration=x, targets=y, method="niti"))
    assert [layer.kind for layer in net.layers] == [
        "conv",
        "max_pool",
        "depthwise",
        "dense",
        "dense",
    ]
    assert net.layers[0].bias is not None
    assert net.layers[0].relu
    assert not net.layers[-1].relu


def test_int8_logits_follow_the_float_model(samples):
    x, y = samples
    model = small_model(depthwise=True)
    net, _ = read_net(convert_priot(model, calibration=x, targets=y, method="niti"))
    core = _native.PriotNet([layer.spec() for layer in net.layers])
    for i, layer in enumerate(net.layers):
        if layer.has_weights:
            core.set_shifts(i, layer.exponent, layer.forward_shift, 0, 0)
            core.set_weights(i, layer.weights)
            if layer.bias is not None:
                core.set_bias(i, layer.bias)
    codes = np.clip(np.rint(x / 2.0**net.input_exponent), -128, 127).astype(np.int8)
    real = core.predict(codes.reshape(48, -1)) * 2.0 ** net.exponents()[-1]
    wanted = model(x).numpy()
    assert np.corrcoef(real.ravel(), wanted.ravel())[0, 1] > 0.98


def test_calibration_counts_the_shifts_that_the_kernels_count(samples):
    x, y = samples
    raw = convert_priot(small_model(depthwise=True), calibration=x, targets=y, rounding="half_up")
    net, _ = read_net(raw)
    for layer in net.weighted():
        layer.threshold, layer.bias, layer.float_bias = -128, None, None
    codes = np.clip(np.rint(x / 2.0**net.input_exponent), -128, 127).astype(np.int8)
    report = calibrate(net, codes, y, rule="mode")
    core = _native.PriotNet([layer.spec() for layer in net.layers])
    core.configure({"forward": 0, "backward": 0, "masked_backward": False})
    core.configure({"input_exponent": net.input_exponent})
    weighted = [(i, layer) for i, layer in enumerate(net.layers) if layer.has_weights]
    for i, layer in weighted:
        core.set_weights(i, layer.weights)
        core.set_scores(i, layer.scores, np.zeros(0, np.uint8), -128)
        core.set_shifts(i, layer.exponent, layer.forward_shift, layer.backward_shift, 0)

    def native(kind):
        return {
            layer.name: {str(k): int(n) for k, n in enumerate(core.histogram(i, kind)) if n}
            for i, layer in weighted
        }

    flat, labels = codes.reshape(48, -1), y.astype(np.int32)
    core.configure({"dynamic_forward": True})
    core.calibrate(flat, labels)
    assert native(0) == report["forward"]
    core.configure({"dynamic_forward": False, "dynamic_backward": True})
    core.reset_statistics()
    core.calibrate(flat, labels)
    assert {k: v for k, v in native(1).items() if v} == report["backward"]
    core.configure({"dynamic_backward": False})
    core.reset_statistics()
    core.calibrate(flat, labels)
    assert native(2) == report["gradient"]


def test_models_that_are_no_chain_are_refused_with_every_reason(samples):
    x, y = samples
    inputs = keras.Input((8, 9, 2))
    a = layers.Conv2D(2, 3, activation="relu6", name="six")(inputs)
    out = layers.Dense(4, name="d")(layers.GlobalAveragePooling2D(name="mean")(a))
    with pytest.raises(ConversionError, match=r"(?s)six.*mean"):
        convert_priot(keras.Model(inputs, out), calibration=x, targets=y)


def test_missing_or_wrong_labels_are_refused(samples):
    x, y = samples
    with pytest.raises(CalibrationError, match="labels"):
        convert_priot(small_model(), calibration=x, targets=None)
    with pytest.raises(CalibrationError, match="from 0 to 3"):
        convert_priot(small_model(), calibration=x, targets=y + 1)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("mu", 9), ("rounding", "nearest"), ("threshold", 200), ("unscored", 1.0),
        ("selection", "best"), ("init", (500, 1)), ("shift_rule", "max"), ("method", "priots"),
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused_by_name(samples, option, value):
    x, y = samples
    options = {"method": "priot-s", option: value}
    with pytest.raises(ConversionError, match="Expected"):
        convert_priot(small_model(), calibration=x, targets=y, **options)


def test_freezing_another_rounding_warns_that_tflm_differs(samples, caplog):
    x, y = samples
    raw = convert_priot(small_model(), calibration=x, targets=y, rounding="half_up")
    with caplog.at_level(logging.WARNING):
        freeze(raw)
    assert "half_up" in caplog.text
