"""Generated code of a graph with every kind of operator, against the engine and the emulators."""

import numpy as np
import pytest
from chains import require_target

import tflm_train
from converters.flatbuffer import op_name, read_model
from tflm_train._firmware.build import HostModel, build_image, write_sources
from tflm_train._firmware.cost import graph_costs
from tflm_train._firmware.count import counting_plugin
from tflm_train._firmware.emulators import Emulator
from tflm_train._firmware.host_twin import ZoTwin
from tflm_train._firmware.source import make_source

OPERATORS = {"ADD", "MUL", "MEAN", "MAX_POOL_2D", "AVERAGE_POOL_2D", "LOGISTIC", "SOFTMAX",
             "LEAKY_RELU", "PAD", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D",
             "FULLY_CONNECTED"}  # fmt: skip


@pytest.fixture(scope="module")
def mixed():
    """(bytes, samples) of a residual net with squeeze-and-excite, pools and a softmax."""
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(3)
    layers = keras.layers
    x = keras.Input((12, 12, 2))
    y = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    z = layers.DepthwiseConv2D(3, padding="same")(y)
    z = layers.LeakyReLU(negative_slope=0.2)(z)
    gate = layers.GlobalAveragePooling2D(keepdims=True)(z)
    gate = layers.Conv2D(8, 1, activation="sigmoid")(gate)
    y = layers.Add()([y, layers.Multiply()([z, gate])])
    y = layers.Concatenate()(
        [layers.MaxPooling2D(3, strides=2, padding="same")(y), layers.AveragePooling2D(2)(y)]
    )
    y = layers.Activation("sigmoid")(layers.ZeroPadding2D(1)(y))
    y = layers.GlobalAveragePooling2D()(layers.Conv2D(12, 3, strides=2)(y))
    model = keras.Model(x, layers.Softmax()(layers.Dense(5)(y)))
    samples = np.random.default_rng(4).normal(size=(48, 12, 12, 2)).astype(np.float32)
    return tflm_train.convert(model, calibration=samples), samples


def test_the_model_has_every_kind_of_operator(mixed):
    model = read_model(mixed[0])
    assert {op_name(model, op) for op in model.subgraphs[0].operators} >= OPERATORS


@pytest.mark.parametrize("kernels_of", ["generic", "rp2040"])
def test_generated_code_infers_and_trains_with_the_bits_of_the_host(
    build_folder, mixed, kernels_of
):
    raw, x = mixed
    source = make_source(raw, kernels_of, batch=2, q=2, seed=5)
    folder = build_folder / f"mixed_{kernels_of}"
    write_sources(source.files(), folder)
    model = HostModel(folder, kernels_of=kernels_of)
    twin = ZoTwin(raw, q=2, seed=5)
    codes, labels = twin.codes(x), (np.arange(len(x)) % 5).astype(np.int32)
    for i in range(0, 24, 2):
        np.testing.assert_array_equal(model.infer(codes[i]), twin.infer(x[i : i + 1])[0], str(i))
        assert model.train(codes[i : i + 2], labels[i : i + 2])[0] == 1
        twin.step(x[i : i + 2], labels[i : i + 2])
        assert model.crc() == twin.crc()


@pytest.mark.parametrize("target", ["rp2040", "cortex-m55"])
def test_boards_give_the_same_bits_and_take_about_the_planned_time(build_folder, mixed, target):
    require_target(target)
    raw, x = mixed
    source = make_source(raw, target, trains=False)
    folder = build_folder / f"mixed_{target}"
    write_sources(source.files(), folder)
    image = build_image(folder, target)
    interpreter = tflm_train.Interpreter(raw)
    codes = interpreter.quantize(x)[0]
    engine = tflm_train._native.Engine(raw, preserve_all=True)
    costs = graph_costs(source, target, engine.dump([codes[:1]]))
    plugin = counting_plugin(image.path) if target == "cortex-m55" else None
    with Emulator(image.path, target, plugin=plugin) as emulator:
        for i in (1, 2, 0):
            found = emulator.client.infer(codes[i].ravel())
            taken = emulator.last_count()
            np.testing.assert_array_equal(found, engine.run([codes[i : i + 1]])[0].ravel())
    # Looser than for the reference nets: logistic and softmax take a time that depends on the data.
    assert costs["infer"] == pytest.approx(taken, rel=0.2)
