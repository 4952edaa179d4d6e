"""Models the engine refuses: damaged bytes and what no kernel handles, always as `ModelError`."""

import sys
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.flatbuffer import read_model, write_model
from tflm_train import _native

sys.path.insert(0, str(Path(__file__).parent))
from single_op import SingleOp  # noqa: E402


def conv_model(**options):
    """A small convolution; options replace those of its table."""
    table = {"padding": 0, "strideH": 1, "strideW": 1, **options}
    m = SingleOp("CONV_2D", **table)
    rng = np.random.default_rng(0)
    inputs = [
        m.activation([1, 6, 5, 3], 0.02, -5),
        m.constant(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8), [0.01] * 4),
        m.constant(rng.integers(-99, 99, 4).astype(np.int32), [0.0002] * 4),
    ]
    return m.build(inputs, m.activation([1, 6, 5, 4], 0.05, 3))


def changed(change):
    """The model after `change(model, graph)`."""
    model = read_model(conv_model())
    change(model, model.subgraphs[0])
    return write_model(model)


def set_tensor(index, **fields):
    def change(model, graph):
        for name, value in fields.items():
            target = graph.tensors[index]
            if not hasattr(target, name):
                target = target.quantization
            setattr(target, name, value)

    return change


def set_inputs(*indices):
    return lambda model, graph: setattr(graph.operators[0], "inputs", np.array(indices, np.int32))


def swap_code(builtin):
    def change(model, graph):
        model.operatorCodes[0].builtinCode = builtin
        model.operatorCodes[0].deprecatedBuiltinCode = min(builtin, 127)

    return change


CASES = {
    "zero scale": (set_tensor(0, scale=[0.0]), "one scale above 0.*'tensor_0'"),
    "negative scale": (set_tensor(3, scale=[-1.0]), "finite scales.*'tensor_3'"),
    "NaN scale": (set_tensor(3, scale=[np.nan]), "finite scales.*'tensor_3'"),
    "zero point out of range": (set_tensor(0, zeroPoint=[200]), "zero point of -128 to 127"),
    "weights with a zero point": (set_tensor(1, zeroPoint=[1] * 4), "zero point 0, got 1"),
    "scales on another dimension": (set_tensor(1, quantizedDimension=3), "one scale per entry"),
    "int16 activations": (
        set_tensor(0, type=schema.TensorType.INT16),
        "int16 activations unsupported: tensor 0 'tensor_0'",
    ),
    "float activations": (
        set_tensor(3, type=schema.TensorType.FLOAT32),
        "float32 activations unsupported: tensor 3 'tensor_3'",
    ),
    "int4 weights": (set_tensor(1, type=schema.TensorType.INT4), "int8 weights, got int4"),
    "shape against buffer": (set_tensor(1, shape=[4, 3, 3, 4]), "144 bytes, got 108"),
    "huge shape": (set_tensor(0, shape=[1, 30000, 30000, 3]), "at most 2\\^28 elements"),
    "negative size": (set_tensor(0, shape=[1, -6, 5, 3]), "sizes of 0 or more"),
    "size of zero": (set_tensor(0, shape=[1, 0, 5, 3]), "no size of 0"),
    "output of another size": (set_tensor(3, shape=[1, 6, 5, 5]), "an output of 6 x 5 x 4"),
    "filter of another depth": (set_tensor(0, shape=[1, 6, 5, 4]), "a filter depth that divides 4"),
    "bias of another length": (set_inputs(0, 1, 1), "int32, got int8"),
    "no weights": (set_inputs(0, -1, 2), "an input 1, got none"),
    "too many inputs": (set_inputs(0, 1, 2, 2), "2 to 3 inputs, got 4"),
    "an index outside": (set_inputs(0, 1, 77), "tensor indices below 4, got 77"),
    "a scale ratio without a multiplier": (set_tensor(3, scale=[1e-38]), "ratio is below 2\\^30"),
    "an unknown operator": (
        swap_code(schema.BuiltinOperator.LSTM),
        "operator 0 LSTM: Expected an operator the native engine runs",
    ),
    "options of another operator": (
        swap_code(schema.BuiltinOperator.SOFTMAX),
        "Expected options of SOFTMAX at operator 0",
    ),
    "a variable tensor": (set_tensor(0, isVariable=True), "no variable tensors"),
    "a loop": (
        lambda model, graph: setattr(graph.operators[0], "outputs", np.array([0], np.int32)),
        "one writer, got two",
    ),
    "an output nobody fills": (
        lambda model, graph: graph.operators.clear(),
        "an operator that fills output",
    ),
    "a fused tanh": (
        lambda model, graph: setattr(
            graph.operators[0].builtinOptions, "fusedActivationFunction", 4
        ),
        "fused activation NONE, RELU, RELU6 or RELU_N1_TO_1, got number 4",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_contradiction_is_named(name):
    change, message = CASES[name]
    with pytest.raises(_native.ModelError, match=message):
        _native.Engine(changed(change))


@pytest.mark.parametrize(
    "options", [{"strideH": 0}, {"strideW": -1}, {"dilationHFactor": 0}, {"strideH": 1 << 20}]
)
def test_absurd_strides_are_refused(options):
    with pytest.raises(_native.ModelError, match="filter size, stride and dilation of 1 to 4096"):
        _native.Engine(conv_model(**options))


@pytest.mark.parametrize(
    "raw", [b"", b"\x89PNG\r\n\x1a\n" + bytes(64), b"TFL3", bytes(8), bytes(100)]
)
def test_other_files_are_not_tflite_files(raw):
    with pytest.raises(_native.ModelError, match="not a TFLite file .no TFL3 identifier."):
        _native.Engine(raw)


def test_a_model_error_is_a_value_error():
    assert issubclass(_native.ModelError, ValueError)


def test_softmax_scales_tflm_would_abort_on_are_refused():
    m = SingleOp("SOFTMAX", beta=1.0)
    raw = m.build([m.activation([1, 4], 1e-9, 0)], m.activation([1, 4], 1 / 256, -128))
    with pytest.raises(_native.ModelError, match="SOFTMAX: Expected a scale times beta"):
        _native.Engine(raw)
    m = SingleOp("SOFTMAX", beta=1.0)
    raw = m.build([m.activation([1, 4], 24.7, 0)], m.activation([1, 4], 1 / 256, -128))
    x = np.array([[3, 3, 2, -128]], np.int8)
    assert _native.Engine(raw).run(x).tolist() == [[0, 0, -128, -128]]


def survives(raw):
    """Loads and runs whatever this is; True when it was refused."""
    try:
        engine = _native.Engine(raw)
    except _native.ModelError:
        return True
    feeds = {}
    for spec in engine.inputs:
        shape = spec["shape"] or (1,)
        if np.prod(shape) > 1 << 20:
            return False
        feeds[spec["index"]] = np.full(shape, 7, np.int8)
    engine.run_range(0, engine.num_ops, feeds, [o["index"] for o in engine.outputs])
    return False


def test_every_truncation_is_refused():
    raw = conv_model()
    for size in range(len(raw)):
        if not survives(raw[:size]):
            # Only trailing bytes that nothing points at may be missing.
            assert np.array_equal(
                _native.Engine(raw[:size]).dump(np.zeros((1, 6, 5, 3), np.int8))[3],
                _native.Engine(raw).dump(np.zeros((1, 6, 5, 3), np.int8))[3],
            )


def test_every_flipped_byte_is_refused_or_runs():
    raw = conv_model()
    refused = 0
    for position in range(len(raw)):
        for value in (0x00, 0xFF, 0x7F, raw[position] ^ 0x01, raw[position] ^ 0x80):
            damaged = bytearray(raw)
            damaged[position] = value
            refused += survives(bytes(damaged))
    assert refused > 200


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8)), max_size=6))
def test_random_damage_is_refused_or_runs(patches):
    raw = bytearray(conv_model())
    for position, data in patches:
        at = position % len(raw)
        raw[at : at + len(data)] = data[: len(raw) - at]
    survives(bytes(raw))


def test_random_damage_to_a_real_model_is_refused_or_runs(mnist_int8):
    rng = np.random.default_rng(0)
    # The tables lie before and behind the weights: damage anywhere, most of it outside them.
    for _ in range(300):
        raw = bytearray(mnist_int8)
        for _ in range(int(rng.integers(1, 4))):
            near = int(rng.integers(0, 4096))
            at = near if rng.random() < 0.5 else len(raw) - 1 - near
            raw[at] = int(rng.integers(256))
        survives(bytes(raw))
