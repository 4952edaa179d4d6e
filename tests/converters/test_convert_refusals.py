"""Layers int8 cannot express are all named at once; what remains unfolded is reported."""

import logging
import subprocess
import sys

import numpy as np
import pytest

from converters import convert
from converters.errors import ConversionError, UnsupportedModelError
from converters.flatbuffer import read_model
from converters.op_support import check_int8_model


def test_every_unsupported_operator_is_listed_with_its_layer(keras):
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((5, 3)),
            layers.LSTM(4, name="memory"),
            layers.Dense(4, activation="gelu", name="smooth"),
            layers.Dense(2, activation="tanh", name="squash"),
        ]
    )
    with pytest.raises(ConversionError) as caught:
        convert(model)
    text = str(caught.value)
    assert "layer 'memory' (LSTM)" in text
    assert "layer 'smooth' (Dense): GELU" in text
    assert "layer 'squash' (Dense): TANH" in text


def test_operators_tensorflow_alone_knows_are_listed_with_their_layer(keras):
    class Sorter(keras.layers.Layer):
        def call(self, x):
            return keras.ops.cumsum(keras.ops.erf(x), axis=-1)

    model = keras.Sequential([keras.Input((4,)), Sorter(name="odd"), keras.layers.Dense(2)])
    with pytest.raises(ConversionError, match=r"layer 'odd' \(Sorter\)"):
        convert(model)


@pytest.mark.parametrize("kind", ["conv", "dense"])
def test_batch_normalisation_behind_a_linear_layer_folds_into_one_operator(keras, converted, kind):
    layers = keras.layers
    keras.utils.set_random_seed(1)
    first = layers.Conv2D(4, 3, name="lin") if kind == "conv" else layers.Dense(4, name="lin")
    shape = (6, 6, 2) if kind == "conv" else (7,)
    model = keras.Sequential(
        [keras.Input(shape), first, layers.BatchNormalization(name="bn"), layers.ReLU()]
    )
    rng = np.random.default_rng(0)
    norm = model.get_layer("bn")
    norm.set_weights([rng.uniform(0.5, 2, 4), rng.normal(size=4), rng.normal(size=4), np.ones(4)])
    samples = rng.random((32, *shape)).astype(np.float32)
    result = converted(model, calibration=samples)
    assert result.ops == ["CONV_2D" if kind == "conv" else "FULLY_CONNECTED"]
    assert result.info.options["not_folded"] == []
    out = result.graph.tensors[result.graph.outputs[0]]
    real = result.run(samples).astype(float) - out.quantization.zeroPoint[0]
    real *= out.quantization.scale[0]
    expected = model.predict(samples, verbose=0)
    assert np.abs(real - expected).max() <= 3 * out.quantization.scale[0]


def test_batch_normalisation_that_cannot_fold_is_reported_and_not_trainable(
    keras, converted, caplog
):
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 2)),
            layers.MaxPooling2D(),
            layers.BatchNormalization(name="lonely"),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(2, name="d"),
        ]
    )
    model.get_layer("lonely").set_weights([np.full(2, v) for v in (1.5, 0.3, 0.2, 1.0)])
    samples = np.random.default_rng(0).random((8, 8, 8, 2))
    with caplog.at_level(logging.WARNING):
        result = converted(model, calibration=samples, trainable="all")
    assert "not folded: layer lonely" in caplog.text
    assert result.info.options["not_folded"] == ["lonely"]
    assert [t.layer for t in result.info.trainable] == ["d"]
    assert {"MUL", "ADD"} <= set(result.ops)
    with pytest.raises(ConversionError, match="'lonely'.*could not be folded"):
        convert(model, calibration=samples, trainable="lonely")


def test_a_subtracted_constant_is_folded_or_becomes_an_addition(keras, converted):
    x = keras.Input((4,))
    linear = keras.layers.Dense(3, name="d", use_bias=False)
    model = keras.Model(x, linear(x) - np.array([1.0, 2.0, 3.0], np.float32))
    result = converted(model, calibration=np.random.default_rng(0).random((16, 4)))
    assert result.ops == ["FULLY_CONNECTED"]
    bias = [op.inputs[2] for op in result.graph.operators][0]
    tensor = result.graph.tensors[bias]
    values = result.values(tensor.name.decode()) * np.asarray(tensor.quantization.scale)
    np.testing.assert_allclose(values, [-1, -2, -3], rtol=1e-3)
    first = keras.Model(x, linear(keras.layers.ReLU()(x - np.float32(0.5))))
    assert converted(first, calibration=np.random.default_rng(0).random((16, 4))).ops == [
        "ADD",
        "FULLY_CONNECTED",
    ]


_RUN_IN_TFLM = """
import sys, numpy as np
from tflite_micro.python.tflite_micro import runtime
interpreter = runtime.Interpreter.from_bytes(open(sys.argv[1], "rb").read())
interpreter.set_input(np.full((1, 4), 100, np.int8), 0)
interpreter.invoke()
print(interpreter.get_output(0).astype(int).sum())
"""


@pytest.mark.parametrize("factor", [1000.0, 1.0, 1e-4, 0.0])
def test_extreme_logits_run_through_softmax_in_tflm_without_abort(keras, tmp_path, factor):
    pytest.importorskip("tflite_micro", reason="the tflite-micro wheel is not installed")
    layer = keras.layers.Dense(3, activation="softmax", name="d", use_bias=False)
    model = keras.Sequential([keras.Input((4,)), layer])
    layer.set_weights([np.random.default_rng(0).normal(size=(4, 3)) * factor])
    path = tmp_path / "m.tflite"
    path.write_bytes(convert(model, calibration=np.random.default_rng(0).random((20, 4))))
    # In a process of its own: a failed check aborts.
    done = subprocess.run(
        [sys.executable, "-c", _RUN_IN_TFLM, str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert abs(int(done.stdout.split()[-1]) - (256 - 3 * 128)) <= 2


def test_int16_activations_are_refused_by_name(keras):
    from converters.quiet import import_tensorflow, quiet_native_output

    tf = import_tensorflow()
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    model = keras.Sequential([keras.Input((4,), batch_size=1), keras.layers.Dense(2)])
    with quiet_native_output():
        function = tf.function(model, input_signature=[tf.TensorSpec((1, 4))])
        frozen = convert_variables_to_constants_v2(function.get_concrete_function())
        converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: [[np.ones((1, 4), np.float32)]]
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        ]
        converter.inference_input_type = converter.inference_output_type = tf.int16
        raw = converter.convert()
    with pytest.raises(UnsupportedModelError, match="int16 activations unsupported: tensor '"):
        check_int8_model(read_model(raw))


def test_a_probability_joined_with_wider_values_is_refused(keras):
    layers = keras.layers
    x = keras.Input((4,))
    joined = layers.Concatenate()([layers.Dense(3, activation="softmax")(x), x])
    model = keras.Model(x, layers.Dense(2)(joined))
    with pytest.raises(ConversionError, match="SOFTMAX to be joined only with values in"):
        convert(model, calibration=np.random.default_rng(0).random((8, 4)) * 9)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "sgd"},
        {"weights": "int4"},
        {"scales": "log"},
        {"weights": "per-channel", "scales": "power-of-two"},
        {"weight_headroom": 0.5},
        {"logit_headroom": float("nan")},
        {"weight_headroom": "4"},
        {"calibration_clip": 60},
        {"labels": "cat"},
        {"labels": ["a\nb"]},
        {"normalization": {"std": 1}},
        {"normalization": {"scale": 0}},
        {"trainable": "last:0"},
        {"trainable": "last:9"},
        {"trainable": "nope"},
        {"trainable": ""},
        {"trainable": 3},
    ],
)
def test_options_out_of_range_are_refused(small_cnn, options):
    with pytest.raises(ConversionError, match="Expected"):
        convert(small_cnn[0], calibration=small_cnn[1], **options)


def test_integer_inputs_are_refused_with_their_name(keras):
    x = keras.Input((4,), name="ids", dtype="int32")
    model = keras.Model(x, keras.layers.Dense(2)(keras.layers.Embedding(5, 3)(x)))
    with pytest.raises(ConversionError):
        convert(model)
