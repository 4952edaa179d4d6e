"""Calls the engine refuses, each with an error that says what was expected."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tflm_train import _native

sys.path.insert(0, str(Path(__file__).parent))
from single_op import SingleOp  # noqa: E402


@pytest.fixture
def engine(mnist_int8):
    return _native.Engine(mnist_int8)


def test_an_input_of_another_shape_or_dtype_is_refused(engine):
    with pytest.raises(ValueError, match=r"Expected int8 \[n, 28, 28, 1\] .* got \[2, 28, 28\]"):
        engine.run(np.zeros((2, 28, 28), np.int8))
    with pytest.raises(ValueError, match="C-contiguous int8"):
        engine.run(np.zeros((2, 28, 28, 1), np.float32))
    with pytest.raises(ValueError, match="C-contiguous int8"):
        engine.run(np.zeros((4, 28, 28, 1), np.int8)[::2])
    with pytest.raises(ValueError, match="Expected 1 inputs, got 2"):
        engine.run([np.zeros((1, 28, 28, 1), np.int8)] * 2)


def test_a_range_without_a_needed_feed_names_the_tensor(engine):
    last = engine.num_ops
    with pytest.raises(ValueError, match="Expected a feed of tensor .* got none"):
        engine.run_range(last - 1, last, {}, [engine.outputs[0]["index"]])
    with pytest.raises(ValueError, match="Expected a range of operators"):
        engine.run_range(3, 2, {}, [])
    with pytest.raises(ValueError, match="Expected a tensor of 0 to"):
        engine.run_range(0, last, {}, [9999])


def test_feeds_of_different_lengths_are_refused():
    m = SingleOp("ADD")
    inputs = [m.activation([1, 4], 0.1, 0) for _ in range(2)]
    engine = _native.Engine(m.build(inputs, m.activation([1, 4], 0.1, 0)))
    with pytest.raises(ValueError, match="Expected 2 samples"):
        engine.run([np.zeros((2, 4), np.int8), np.zeros((3, 4), np.int8)])


def test_writes_of_another_shape_or_to_an_activation_are_refused(engine):
    op = next(o for o in engine.ops if o["name"] == "FULLY_CONNECTED")
    w = engine.read_tensor(op["inputs"][1])
    with pytest.raises(ValueError, match="Expected int8 .* got int8"):
        engine.write_tensor(op["inputs"][1], np.ascontiguousarray(w.T))
    with pytest.raises(ValueError, match="got int32"):
        engine.write_tensor(op["inputs"][1], w.astype(np.int32))
    with pytest.raises(TypeError):
        engine.write_tensor(op["inputs"][1], w.astype(np.float32))
    with pytest.raises(ValueError, match="Expected a constant"):
        engine.write_tensor(op["outputs"][0], np.zeros((1, 10), np.int8))


def test_constants_that_shape_an_operator_are_read_only():
    m = SingleOp("MEAN", keepDims=False)
    axes = m.constant(np.array([1, 2], np.int32))
    raw = m.build([m.activation([1, 4, 4, 3], 0.1, 0), axes], m.activation([1, 3], 0.1, 0))
    with pytest.raises(ValueError, match="which shapes MEAN"):
        _native.Engine(raw).write_tensor(axes, np.array([2, 3], np.int32))


def test_an_activation_can_be_read_only_when_it_was_kept(engine):
    with pytest.raises(ValueError, match="preserve_all"):
        engine.read_tensor(engine.outputs[0]["index"])


def test_unknown_instruction_sets_and_thread_counts_are_refused(mnist_int8):
    with pytest.raises(ValueError, match="Expected one of .*portable"):
        _native.Engine(mnist_int8, simd="sse9")
    with pytest.raises(ValueError, match="Expected one of"):
        _native.set_simd("sse9")
    with pytest.raises(ValueError, match="Expected 1 to 256 threads"):
        _native.Engine(mnist_int8, threads=0)


def test_the_default_instruction_set_can_be_changed(mnist_int8):
    fastest = _native.simd_levels()[0]
    try:
        _native.set_simd("portable")
        assert _native.Engine(mnist_int8).simd == "portable"
    finally:
        _native.set_simd(fastest)
    assert _native.Engine(mnist_int8).simd == fastest
