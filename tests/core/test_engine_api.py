"""What the engine promises its callers: batches, partial runs, weights that are never stale."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tflm_train import _native

sys.path.insert(0, str(Path(__file__).parent))
from engine_models import random_inputs, simd_levels  # noqa: E402
from single_op import SingleOp  # noqa: E402

LEVELS = simd_levels()


@pytest.fixture(params=LEVELS)
def level(request):
    return request.param


def dense_operator(engine):
    """(index, input, weights, bias, output) of the last dense layer."""
    for i in reversed(range(engine.num_ops)):
        op = engine.ops[i]
        if op["name"] == "FULLY_CONNECTED":
            return i, *op["inputs"], op["outputs"][0]
    raise AssertionError("no dense layer")


def test_inputs_and_outputs_describe_the_model(mnist_int8):
    engine = _native.Engine(mnist_int8)
    (spec,) = engine.inputs
    assert spec["shape"][1:] == (28, 28, 1)
    assert spec["scale"] == pytest.approx(1 / 255)
    assert spec["zero_point"] == -128
    assert engine.outputs[0]["shape"] == (1, 10)
    assert engine.num_ops == len(engine.ops)
    assert engine.simd == LEVELS[0]
    assert engine.arena_bytes > 28 * 28


def test_a_batch_gives_what_its_samples_give(mnist_int8, level):
    engine = _native.Engine(mnist_int8, simd=level)
    x = random_inputs(engine, 67)
    whole = engine.run(x)
    assert whole.shape == (67, 10)
    assert np.array_equal(whole, np.concatenate([engine.run(x[i : i + 1]) for i in range(67)]))


def test_threads_give_the_same_bits(mnist_int8):
    x = random_inputs(_native.Engine(mnist_int8), 37)
    expected = _native.Engine(mnist_int8).run(x)
    for threads in (2, 3, 8):
        assert np.array_equal(_native.Engine(mnist_int8, threads=threads).run(x), expected)


def test_runs_of_several_python_threads_do_not_disturb_each_other(mnist_int8):
    engine = _native.Engine(mnist_int8)
    inputs = [random_inputs(engine, 20, seed) for seed in range(4)]
    expected = [engine.run(x) for x in inputs]
    results = [[] for _ in inputs]

    def work(i):
        for _ in range(10):
            results[i].append(engine.run(inputs[i]))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for got, want in zip(results, expected, strict=True):
        assert all(np.array_equal(g, want) for g in got)


def test_no_samples_give_an_empty_output(mnist_int8):
    assert _native.Engine(mnist_int8).run(np.zeros((0, 28, 28, 1), np.int8)).shape == (0, 10)


def test_written_weights_are_those_of_a_model_built_with_them(mnist_int8, level):
    engine = _native.Engine(mnist_int8, simd=level)
    x = random_inputs(engine, 5)
    before = engine.run(x)
    rng = np.random.default_rng(1)
    changed = 0
    for op in engine.ops:
        for t in op["inputs"][1:]:
            if op["name"] not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
                continue
            old = engine.read_tensor(t)
            new = np.clip(old + rng.integers(-3, 4, old.shape), -127, 127).astype(old.dtype)
            if old.dtype == np.int32:
                new = (old + rng.integers(-300, 300, old.shape)).astype(np.int32)
            engine.write_tensor(t, new)
            assert np.array_equal(engine.read_tensor(t), new)
            rebuilt = _native.Engine(engine.serialize(), simd=level)
            assert np.array_equal(rebuilt.read_tensor(t), new)
            assert np.array_equal(engine.run(x), rebuilt.run(x))
            changed += 1
    assert changed >= 4
    assert not np.array_equal(engine.run(x), before)


def test_the_engine_has_its_own_copy_of_the_bytes(mnist_int8):
    raw = bytearray(mnist_int8)
    engine = _native.Engine(bytes(raw))
    copy = bytes(bytearray(mnist_int8))
    _, _, weights, _, _ = dense_operator(engine)
    engine.write_tensor(weights, np.zeros_like(engine.read_tensor(weights)))
    assert bytes(raw) == copy
    assert mnist_int8 == copy


def test_two_operators_that_share_a_weight_buffer_both_see_a_write(level):
    m = SingleOp("FULLY_CONNECTED")
    x = m.activation([1, 8], 0.1, 0)
    w = m.constant(np.ones((8, 8), np.int8), [0.1])
    y = m.activation([1, 8], 0.1, 0)
    raw = m.build([x, w], y)
    from converters.flatbuffer import read_model, write_model

    model = read_model(raw)
    graph = model.subgraphs[0]
    graph.tensors.append(read_model(raw).subgraphs[0].tensors[y])
    second = read_model(raw).subgraphs[0].operators[0]
    second.inputs, second.outputs = np.array([y, w], np.int32), np.array([3], np.int32)
    graph.operators.append(second)
    graph.outputs = np.array([3], np.int32)
    engine = _native.Engine(write_model(model), simd=level)
    values = np.arange(8, dtype=np.int8)[None]
    engine.write_tensor(w, np.full((8, 8), 2, np.int8))
    fresh = _native.Engine(engine.serialize(), simd=level)
    assert np.array_equal(engine.run(values), fresh.run(values))


def test_a_range_runs_only_what_its_fetches_need(mnist_int8):
    engine = _native.Engine(mnist_int8)
    op, features, _, _, logits = dense_operator(engine)
    x = random_inputs(engine, 9)
    (middle,) = engine.run_range(0, op, {engine.inputs[0]["index"]: x}, [features])
    assert engine.live_tensors(op) == [features]
    (cut,) = engine.run_range(op, engine.num_ops, {features: middle}, [logits])
    (direct,) = engine.run_range(0, engine.num_ops, {engine.inputs[0]["index"]: x}, [logits])
    assert np.array_equal(cut, direct)


def test_a_fed_tensor_can_be_fetched(mnist_int8):
    engine = _native.Engine(mnist_int8)
    x = random_inputs(engine, 3)
    index = engine.inputs[0]["index"]
    (same,) = engine.run_range(0, 0, {index: x}, [index])
    assert np.array_equal(same, x)


def test_weights_given_as_an_input_are_read_at_every_run(level):
    m = SingleOp("FULLY_CONNECTED")
    x = m.activation([1, 4], 0.5, 3)
    w = m.activation([2, 4], 0.5, 0)
    raw = m.build(
        [x, w, m.constant(np.array([5, -7], np.int32), [0.25])], m.activation([1, 2], 0.5, 0)
    )
    engine = _native.Engine(raw, simd=level)
    rng = np.random.default_rng(0)
    a = rng.integers(-128, 128, (1, 4), dtype=np.int8)
    for _ in range(3):
        b = rng.integers(-127, 128, (2, 4), dtype=np.int8)
        acc = (a.astype(int) - 3) @ b.T.astype(int) + [5, -7]
        expected = np.clip(np.floor(acc * 0.5 + 0.5), -128, 127)
        assert np.abs(engine.run([a, b]) - expected).max() <= 1


def test_preserved_activations_are_those_of_the_dump(mnist_int8):
    engine = _native.Engine(mnist_int8, preserve_all=True)
    x = random_inputs(engine, 3)
    engine.run(x)
    for index, values in engine.dump(x[2:3]).items():
        assert np.array_equal(
            engine.read_tensor(index), values.reshape(engine.tensor(index)["shape"])
        )
