"""Our scales and codes against two peers: TensorFlow's own quantiser and Keras' activations."""

import numpy as np
import pytest

from converters.quiet import import_tensorflow, quiet_native_output


def _quantised_by_tensorflow(model, samples):
    """The stock int8 recipe with per-tensor dense kernels."""
    tf = import_tensorflow()
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    shape = (1, *samples.shape[1:])
    with quiet_native_output():
        function = tf.function(model, input_signature=[tf.TensorSpec(shape)])
        frozen = convert_variables_to_constants_v2(function.get_concrete_function())
        converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: ([sample[None]] for sample in samples)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
        converter._experimental_disable_per_channel_quantization_for_dense_layers = True
        return converter.convert()


def _outputs(result):
    tensors = [result.graph.tensors[op.outputs[0]] for op in result.graph.operators]
    return [(t.quantization.scale[0], int(t.quantization.zeroPoint[0])) for t in tensors]


def _weights(result):
    found = []
    for op in result.graph.operators:
        if len(op.inputs) == 3:
            for index in op.inputs[1:]:
                data = result.model.buffers[result.graph.tensors[index].buffer].data
                scales = result.graph.tensors[index].quantization.scale
                found.append((np.asarray(scales), bytes(bytearray(data))))
    return found


def test_scales_codes_and_outputs_equal_those_of_tensorflow_where_nothing_trains(
    small_cnn, converted, opened
):
    model, samples = small_cnn
    # Biases as the trainable tensors leave every kernel its whole range, as TensorFlow does.
    ours = converted(model, calibration=samples, trainable="bias")
    theirs = opened(_quantised_by_tensorflow(model, samples))
    assert ours.ops == theirs.ops
    for (scale, zero), (expected_scale, expected_zero) in zip(
        _outputs(ours), _outputs(theirs), strict=True
    ):
        assert scale == pytest.approx(expected_scale, rel=1e-6)
        assert zero == expected_zero
    for (scales, data), (expected_scales, expected) in zip(
        _weights(ours), _weights(theirs), strict=True
    ):
        np.testing.assert_allclose(scales, expected_scales, rtol=1e-6)
        assert data == expected
    np.testing.assert_array_equal(ours.run(samples), theirs.run(samples))


def test_ranges_are_those_of_keras_own_activations_across_a_skip_connection(keras, converted):
    # TensorFlow's calibrator widens the range of a branch that an ADD overwrites; ours does not.
    keras.utils.set_random_seed(3)
    layers = keras.layers
    x = keras.Input((8, 8, 3))
    a = layers.Conv2D(4, 3, padding="same", name="a")(x)
    b = layers.Conv2D(4, 1, name="b")(x)
    total = layers.Add(name="sum")([a, b])
    model = keras.Model(x, layers.Dense(3, name="d")(layers.GlobalAveragePooling2D()(total)))
    samples = np.random.default_rng(0).normal(size=(16, 8, 8, 3)).astype(np.float32)
    result = converted(model, calibration=samples)
    inner = keras.Model(x, [a, b, total]).predict(samples, verbose=0)
    names = ("a/conv_2d", "b/conv_2d", "sum/add")
    for name, values in zip(names, inner, strict=True):
        assert result.scales(name)[0] == pytest.approx(np.ptp(values) / 255, rel=1e-4)


def test_joined_branches_share_one_scale_without_a_requantising_operator(keras, converted):
    layers = keras.layers
    x = keras.Input((6,))
    wide = layers.Dense(3, name="wide", kernel_initializer=keras.initializers.Constant(9.0))(x)
    narrow = layers.Dense(3, name="narrow", activation="relu")(x)
    model = keras.Model(x, layers.Dense(2)(layers.Concatenate(name="joined")([wide, narrow])))
    result = converted(model, calibration=np.random.default_rng(0).random((16, 6)))
    assert result.ops == ["FULLY_CONNECTED"] * 2 + ["CONCATENATION", "FULLY_CONNECTED"]
    assert result.scales("wide/fully_connected") == result.scales("narrow/fully_connected")
    assert result.scales("wide/fully_connected") == result.scales("joined/concatenation")


def test_every_supported_operator_runs_near_the_float_model(keras, converted):
    layers = keras.layers
    keras.utils.set_random_seed(5)
    x = keras.Input((8, 8, 2))
    y = layers.ZeroPadding2D(((0, 2), (0, 2)))(x)
    y = layers.Conv2D(4, 3, activation="relu")(y)
    y = layers.DepthwiseConv2D(3, padding="same")(y)
    y = layers.LeakyReLU(negative_slope=0.2)(y)
    gate = layers.Dense(4, activation="sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(y))
    y = layers.Multiply()([y, gate])
    y = layers.Concatenate()([layers.AveragePooling2D(2)(y), layers.MaxPooling2D(2)(y)])
    z = layers.Add()([layers.ReLU()(y), layers.ReLU(6.0)(y)])
    model = keras.Model(x, layers.Dense(5, activation="softmax")(layers.Flatten()(z)))
    samples = np.random.default_rng(0).normal(size=(32, 8, 8, 2)).astype(np.float32)
    result = converted(model, calibration=samples)
    assert {"PAD", "LEAKY_RELU", "LOGISTIC", "MUL", "MEAN", "CONCATENATION"} <= set(result.ops)
    real = (result.run(samples).astype(float) + 128) / 256
    assert np.abs(real - model.predict(samples, verbose=0)).max() < 0.06
