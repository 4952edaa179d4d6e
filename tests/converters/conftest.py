"""Small Keras models and a runner, shared because each conversion costs a second."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest

from converters import convert
from converters.flatbuffer import constant, op_name, read_model, tensor_name
from converters.quiet import import_keras
from converters.training_info import read_training_info


class Converted:
    """A converted model opened up for assertions."""

    def __init__(self, raw):
        self.raw = raw
        self.model = read_model(raw)
        self.graph = self.model.subgraphs[0]
        self.info = read_training_info(self.model)

    @property
    def ops(self):
        return [op_name(self.model, op) for op in self.graph.operators]

    def tensor(self, name):
        return next(t for t in self.graph.tensors if tensor_name(t) == name)

    def values(self, name):
        return constant(self.model, self.tensor(name))

    def scales(self, name):
        return np.asarray(self.tensor(name).quantization.scale, np.float64)

    def zero_point(self, name):
        return int(self.tensor(name).quantization.zeroPoint[0])

    def run(self, *inputs):
        """int8 output of one sample under LiteRT's reference kernels."""
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        interpreter = Interpreter(
            model_content=self.raw, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
        )
        interpreter.allocate_tensors()
        details = interpreter.get_input_details()
        outputs = []
        for sample in zip(*inputs, strict=True):
            for detail, value in zip(details, sample, strict=True):
                scale, zero = detail["quantization"]
                codes = np.clip(np.round(value[None] / scale) + zero, -128, 127).astype(np.int8)
                interpreter.set_tensor(detail["index"], codes)
            interpreter.invoke()
            outputs.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0])
        return np.array(outputs)


@pytest.fixture(scope="session")
def keras():
    return import_keras()


@pytest.fixture(scope="session")
def opened():
    """A function: bytes to `Converted`."""
    return Converted


@pytest.fixture(scope="session")
def converted():
    """A function: model and options to `Converted`."""
    return lambda model, **options: Converted(convert(model, **options))


@pytest.fixture(scope="session")
def small_cnn(keras):
    """Conv, pool, dense, softmax with random weights, and samples in [0, 1]."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            layers.Conv2D(4, 3, activation="relu", name="conv"),
            layers.MaxPooling2D(name="pool"),
            layers.Flatten(name="flatten"),
            layers.Dense(6, activation="relu", name="hidden", bias_initializer="normal"),
            layers.Dense(3, activation="softmax", name="head", bias_initializer="normal"),
        ]
    )
    samples = np.random.default_rng(0).random((32, 8, 8, 1)).astype(np.float32)
    return model, samples


@pytest.fixture(scope="session")
def small_int8(small_cnn, converted):
    """`small_cnn` converted with default options."""
    model, samples = small_cnn
    return converted(model, calibration=samples)
