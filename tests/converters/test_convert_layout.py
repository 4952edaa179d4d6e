"""What a converted file looks like: types, operators, batch, scales, names."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from converters import convert
from converters.flatbuffer import constant, tensor_name

_FORBIDDEN = {"QUANTIZE", "DEQUANTIZE", "SHAPE", "PACK", "STRIDED_SLICE"}


def test_every_tensor_is_int8_or_int32_and_no_helper_operator_remains(small_int8):
    types = {t.type for t in small_int8.graph.tensors}
    assert types == {schema.TensorType.INT8, schema.TensorType.INT32}
    assert small_int8.ops == [
        "CONV_2D",
        "MAX_POOL_2D",
        "RESHAPE",
        "FULLY_CONNECTED",
        "FULLY_CONNECTED",
        "SOFTMAX",
    ]
    for index in [*small_int8.graph.inputs, *small_int8.graph.outputs]:
        assert small_int8.graph.tensors[index].type == schema.TensorType.INT8


def test_an_unknown_batch_is_pinned_to_one_without_touching_the_model(keras, converted):
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Flatten(name="f"), keras.layers.Dense(2, name="d")]
    )
    before = (model.get_config(), model.input_shape, [w.copy() for w in model.get_weights()])
    result = converted(model, calibration=np.random.default_rng(0).random((4, 8, 8, 1)))
    assert result.ops == ["RESHAPE", "FULLY_CONNECTED"]
    assert list(result.graph.tensors[result.graph.inputs[0]].shape) == [1, 8, 8, 1]
    assert model.get_config() == before[0]
    assert model.input_shape == before[1] == (None, 8, 8, 1)
    for old, new in zip(before[2], model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    assert model.predict(np.zeros((5, 8, 8, 1)), verbose=0).shape == (5, 2)


@pytest.mark.parametrize(("weights", "count"), [("per-tensor", 1), ("per-channel", 4)])
def test_a_dense_kernel_has_one_scale_unless_per_channel_is_asked_for(
    keras, converted, weights, count
):
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, name="d")])
    result = converted(model, calibration=np.random.default_rng(0).random((8, 5)), weights=weights)
    assert len(result.scales("d/kernel")) == count
    assert result.info.options["weights"] == weights
    assert result.info.options["per_channel_dense"] is (count == 4)
    assert result.info.options["fixed_scales"] is True


def test_a_kernel_is_stored_output_by_input(keras, converted):
    layer = keras.layers.Dense(3, name="d", use_bias=False)
    model = keras.Sequential([keras.Input((4,)), layer])
    kernel = np.arange(12, dtype=np.float32).reshape(4, 3)
    layer.set_weights([kernel])
    result = converted(model, calibration=np.random.default_rng(0).random((8, 4)))
    stored = result.values("d/kernel")
    assert stored.shape == (3, 4)
    np.testing.assert_array_equal(stored, np.round(kernel.T / 11 * 126).astype(np.int8))


def test_tensors_carry_the_names_of_their_layers(small_int8):
    names = {tensor_name(t) for t in small_int8.graph.tensors}
    assert {"image", "conv/kernel", "conv/bias", "hidden/kernel", "head/kernel"} <= names
    assert {"conv/conv_2d", "pool/max_pool_2d", "head/fully_connected", "head/softmax"} <= names


def test_layer_names_that_look_like_scopes_are_told_apart(keras, converted):
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(5, name="dense", activation="relu"),
            layers.Dense(4, name="dense_1", activation="relu"),
            layers.Dense(3, name="dense_2"),
        ]
    )
    result = converted(model, calibration=np.random.default_rng(0).random((8, 6)))
    shapes = {
        name: result.values(f"{name}/kernel").shape for name in ("dense", "dense_1", "dense_2")
    }
    assert shapes == {"dense": (5, 6), "dense_1": (4, 5), "dense_2": (3, 4)}
    assert result.info.trainable[0].layer == "dense_2"


def test_logits_before_the_softmax_are_recorded_for_the_loss(small_int8):
    index = small_int8.info.options["logits"]
    assert tensor_name(small_int8.graph.tensors[index]) == "head/fully_connected"
    assert small_int8.info.options["learning_rate_rule"] == "rms"


@pytest.mark.parametrize("peak", [2.3, 9.0])
def test_a_fused_relu6_never_exceeds_six(keras, converted, peak):
    layer = keras.layers.Conv2D(1, 1, name="c", use_bias=False)
    model = keras.Sequential([keras.Input((4, 4, 1)), layer, keras.layers.ReLU(6.0, name="r")])
    layer.set_weights([np.ones((1, 1, 1, 1), np.float32)])
    samples = np.linspace(0, peak, 16 * 8, dtype=np.float32).reshape(8, 4, 4, 1)
    result = converted(model, calibration=samples)
    op = result.graph.operators[0]
    assert op.builtinOptions.fusedActivationFunction == schema.ActivationFunctionType.RELU6
    scale = result.scales("r/conv_2d")[0]
    assert scale == pytest.approx(min(peak, 6) / 255, rel=1e-5)
    assert result.zero_point("r/conv_2d") == -128
    highest = result.run(np.full((1, 4, 4, 1), 100, np.float32)).max()
    assert highest <= round(6 / scale) - 128


def test_biases_use_the_product_of_the_scales_that_meet_in_them(small_int8):
    for layer, source in (("conv", "image"), ("hidden", "flatten/reshape")):
        expected = small_int8.scales(source).astype(np.float32) * small_int8.scales(
            f"{layer}/kernel"
        ).astype(np.float32)
        np.testing.assert_allclose(small_int8.scales(f"{layer}/bias"), expected, rtol=1e-6)


def test_the_same_model_and_data_give_the_same_bytes(small_cnn, small_int8):
    model, samples = small_cnn
    assert convert(model, calibration=samples) == small_int8.raw


def test_constants_start_on_sixteen_byte_boundaries(small_int8):
    model = schema.Model.GetRootAs(small_int8.raw, 0)
    found = 0
    for i in range(model.BuffersLength()):
        buffer = model.Buffers(i)
        if buffer.DataLength():
            assert buffer._tab.Vector(buffer._tab.Offset(4)) % 16 == 0
            found += 1
    assert found > 5


def test_constants_of_equal_value_do_not_share_a_buffer_that_training_changes(keras, converted):
    layers = keras.layers
    ones = keras.initializers.Ones()
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(4, name="a", kernel_initializer=ones, activation="relu"),
            layers.Dense(4, name="b", kernel_initializer=ones),
        ]
    )
    result = converted(model, calibration=np.random.default_rng(0).random((8, 4)))
    assert result.tensor("a/kernel").buffer != result.tensor("b/kernel").buffer
    assert constant(result.model, result.tensor("b/kernel")).max() == 126


def test_the_last_layer_keeps_its_name_behind_a_separate_activation(keras, converted):
    class Doubled(keras.layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.inner = keras.layers.Dense(3, name="inner")

        def call(self, x):
            return self.inner(x) * 2

    model = keras.Sequential([keras.Input((4,)), Doubled(), keras.layers.ReLU()])
    info = converted(model, calibration=np.random.default_rng(0).random((8, 4))).info
    assert [t.layer for t in info.trainable] == ["inner"]


def test_inputs_given_as_a_dict_come_in_the_order_of_the_model(keras, converted):
    a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
    joined = keras.layers.Concatenate()([a, b])
    model = keras.Model({"b": b, "a": a}, keras.layers.Dense(2)(joined))
    rng = np.random.default_rng(0)
    result = converted(model, calibration={"a": rng.random((8, 4)), "b": rng.random((8, 3))})
    shapes = {
        tensor_name(result.graph.tensors[i]): list(result.graph.tensors[i].shape)
        for i in result.graph.inputs
    }
    assert shapes == {"a": [1, 4], "b": [1, 3]}


def test_nested_models_and_several_outputs_convert(keras, converted):
    layers = keras.layers
    inner = keras.Sequential(
        [keras.Input((4,)), layers.Dense(5, activation="relu", name="i1")], name="inner"
    )
    x = keras.Input((4,))
    y = inner(x)
    model = keras.Model(x, [layers.Dense(2, activation="softmax", name="p")(y), layers.Dense(3)(y)])
    result = converted(model, calibration=np.random.default_rng(0).random((8, 4)), trainable="i1,p")
    assert [t.layer for t in result.info.trainable] == ["i1", "p"]
    assert len(result.graph.outputs) == 2
    assert result.info.options["logits_name"] == "p/fully_connected"
