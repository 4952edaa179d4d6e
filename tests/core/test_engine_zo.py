"""Zeroth-order steps inside the engine against the same steps made from its parts, bit for bit."""

import sys
from pathlib import Path

import numpy as np
import pytest

from converters.flatbuffer import read_model, write_model
from tflm_train import _native

sys.path.insert(0, str(Path(__file__).parent))
from engine_models import simd_levels  # noqa: E402
from single_op import SingleOp  # noqa: E402

ESTIMATORS = ["one_sided", "leave_one_out", "two_sided"]
MULT = 12345


class Problem:
    """A suffix of a model with trainable tensors, and the naive way through it."""

    def __init__(self, raw, layers, *, mu=1, biases=True, weights=True, simd=None, seed=3):
        self.engine = _native.Engine(raw, simd=simd)
        names = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")
        ops = [i for i, op in enumerate(self.engine.ops) if op["name"] in names][-layers:]
        self.first = ops[0]
        self.logits = self.engine.ops[ops[-1]]["outputs"][0]
        self.trainable = []
        for i in ops:
            _, w, *b = self.engine.ops[i]["inputs"]
            if weights:
                values = np.clip(self.engine.read_tensor(w), mu - 127, 127 - mu)
                self.engine.write_tensor(w, values)
                self.trainable.append((w, 1, 127 - mu))
            if biases and b:
                self.trainable.append((b[0], 37, 1 << 30))
        self.mu, self.seed = mu, seed
        self.final = {o["index"] for o in self.engine.outputs}

    def data(self, samples, loss):
        rng = np.random.default_rng(samples)
        tensors = [t for t in self.engine.live_tensors(self.first) if t not in self.final]
        feeds = {
            t: rng.integers(
                -128, 128, (samples, *self.engine.tensor(t)["shape"][1:]), dtype=np.int8
            )
            for t in tensors
        }
        outputs = int(np.prod(self.engine.tensor(self.logits)["shape"]))
        if loss == "cross_entropy":
            return feeds, rng.integers(0, outputs, samples).astype(np.int32)
        return feeds, rng.integers(-128, 128, (samples, outputs), dtype=np.int8)

    def arguments(self, feeds, targets, loss, estimator):
        return {
            "feeds": feeds,
            "first_op": self.first,
            "logits_index": self.logits,
            "targets": targets,
            "loss": loss,
            "mult": MULT,
            "trainable": self.trainable,
            "seed": self.seed,
            "mu": self.mu,
            "estimator": estimator,
        }

    def total(self, feeds, targets, loss):
        (z,) = self.engine.run_range(self.first, self.engine.num_ops, feeds, [self.logits])
        z = z.reshape(len(targets), -1)
        if loss == "cross_entropy":
            return int(_native.zo_cross_entropy(z, targets, MULT).sum())
        return int(_native.zo_squared_error(z, targets).sum())

    def perturb(self, step, k, delta):
        block = 0
        for t, unit, _ in self.trainable:
            w = self.engine.read_tensor(t)
            _native.zo_perturb(w.reshape(-1), self.seed, step, k, block, delta * unit)
            self.engine.write_tensor(t, w)
            block += -(-w.size // 32)

    def naive_losses(self, feeds, targets, loss, step, q, estimator):
        base = self.total(feeds, targets, loss) if estimator == "one_sided" else None
        plus, minus = [], []
        for k in range(q):
            for sign, losses in ((1, plus), (-1, minus)):
                if sign < 0 and estimator != "two_sided":
                    continue
                self.perturb(step, k, sign * self.mu)
                losses.append(self.total(feeds, targets, loss))
                self.perturb(step, k, -sign * self.mu)
        return base, plus, minus or None

    def weights(self):
        return [self.engine.read_tensor(t) for t, _, _ in self.trainable]


def compare(problem, loss, estimator, samples=7, q=4, step=5):
    feeds, targets = problem.data(samples, loss)
    before = problem.weights()
    expected = problem.naive_losses(feeds, targets, loss, step, q, estimator)
    base, plus, minus = problem.engine.zo_losses(
        **problem.arguments(feeds, targets, loss, estimator), step=step, q=q
    )
    assert base == expected[0]
    assert plus.tolist() == expected[1]
    assert (None if minus is None else minus.tolist()) == expected[2]
    for w, old in zip(problem.weights(), before, strict=True):
        assert np.array_equal(w, old)


@pytest.mark.parametrize("simd", simd_levels())
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("loss", ["cross_entropy", "squared_error"])
def test_losses_of_the_last_dense_layer_equal_the_naive_loop(mnist_int8, loss, estimator, simd):
    for samples in (1, 3, 9):
        compare(Problem(mnist_int8, 1, simd=simd, mu=samples), loss, estimator, samples)


@pytest.mark.parametrize("simd", simd_levels())
@pytest.mark.parametrize("layers", [2, 3])
def test_losses_of_a_longer_suffix_equal_the_naive_loop(mnist_int8, layers, simd):
    for estimator in ESTIMATORS:
        compare(Problem(mnist_int8, layers, simd=simd), "cross_entropy", estimator)


@pytest.mark.parametrize("parts", [(True, False), (False, True)])
def test_weights_or_biases_alone_can_train(mnist_int8, parts):
    weights, biases = parts
    compare(Problem(mnist_int8, 1, weights=weights, biases=biases), "cross_entropy", "one_sided")


def dense_model(depth, outputs=5):
    """One dense layer with random weights."""
    rng = np.random.default_rng(depth)
    m = SingleOp("FULLY_CONNECTED")
    inputs = [
        m.activation([1, depth], 0.05, -128),
        m.constant(rng.integers(-126, 127, (outputs, depth)).astype(np.int8), [0.01]),
        m.constant(np.zeros(outputs, np.int32), [0.0005]),
    ]
    return m.build(inputs, m.activation([1, outputs], 0.05, 3))


def two_dense_layers():
    """A dense layer of 20 to 9 and a second one of 9 to 4 behind it."""
    first, second = (read_model(dense_model(*size)) for size in ((20, 9), (9, 4)))
    graph = first.subgraphs[0]
    output = 3
    offset = len(graph.tensors)
    for tensor in second.subgraphs[0].tensors[1:]:
        tensor.buffer += len(first.buffers) if tensor.buffer else 0
        graph.tensors.append(tensor)
    first.buffers += second.buffers
    op = second.subgraphs[0].operators[0]
    op.inputs = np.array([output, offset, offset + 1], np.int32)
    op.outputs = np.array([offset + 2], np.int32)
    graph.operators.append(op)
    graph.outputs = op.outputs
    return write_model(first)


@pytest.mark.parametrize("simd", simd_levels())
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_dense_layer_with_frozen_layers_behind_it_can_train_alone(estimator, simd):
    problem = Problem(two_dense_layers(), 2, simd=simd)
    problem.trainable = problem.trainable[:2]
    compare(problem, "cross_entropy", estimator)


@pytest.mark.parametrize("depth", [1, 31, 32, 33, 64, 2047, 2049, 4200])
def test_sums_with_signs_are_exact_at_every_depth(depth):
    # Inputs at the ends of the range: the largest sums the narrow accumulators ever see.
    problem = Problem(dense_model(depth), 1)
    feeds, targets = problem.data(6, "squared_error")
    feeds[0][:3] = 127
    feeds[0][3:5] = -128
    expected = problem.naive_losses(feeds, targets, "squared_error", 1, 6, "two_sided")
    arguments = problem.arguments(feeds, targets, "squared_error", "two_sided")
    _, plus, minus = problem.engine.zo_losses(**arguments, step=1, q=6)
    assert (plus.tolist(), minus.tolist()) == expected[1:]


@pytest.mark.parametrize("simd", simd_levels())
@pytest.mark.parametrize("update", ["stochastic", "int16_shadow", "float_shadow"])
@pytest.mark.parametrize("normalize", ["rms", "raw"])
def test_a_run_in_the_engine_equals_its_steps_one_by_one(mnist_int8, update, normalize, simd):
    check_run(mnist_int8, update, normalize, simd, q=3)


@pytest.mark.parametrize("depth", [1, 7, 33, 65, 257])
@pytest.mark.parametrize("q", [1, 128])
def test_an_update_of_any_size_equals_the_plain_one(depth, q):
    check_run(dense_model(depth), "stochastic", "rms", None, q=q)


def check_run(raw, update, normalize, simd, q):
    biases = update == "stochastic"
    problem, twin = (Problem(raw, 1, biases=biases, simd=simd) for _ in range(2))
    feeds, targets = problem.data(23, "cross_entropy")
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 23, 7 * 5 + 3).astype(np.int32)
    steps, beta = 8, 200
    rates = rng.integers(1 << 14, 1 << 17, steps).astype(np.uint32)
    states = []
    for p in (problem, twin):
        weights = p.weights()
        momentum = [np.zeros(w.size, np.int32) for w in weights]
        shadow = [None] * len(weights)
        if update != "stochastic":
            kind = (np.int16, 256) if update == "int16_shadow" else (np.float32, 1)
            shadow = [(w.ravel().astype(kind[0]) * kind[1]).astype(kind[0]) for w in weights]
        states.append((momentum, shadow))
    arguments = problem.arguments(feeds, targets, "cross_entropy", "one_sided")
    result = problem.engine.zo_train(
        **arguments,
        first_step=100,
        q=q,
        indices=indices,
        batch_size=5,
        normalize=normalize,
        rates=rates,
        beta_q8=beta,
        momentum=states[0][0],
        shadow=states[0][1],
        mean_square=0,
    )
    mean_square = 0
    for s in range(steps):
        part = indices[s * 5 : s * 5 + 5]
        batch = {t: np.ascontiguousarray(a[part]) for t, a in feeds.items()}
        arguments = twin.arguments(batch, targets[part], "cross_entropy", "one_sided")
        base, plus, _ = twin.engine.zo_losses(**arguments, step=100 + s, q=q)
        d = _native.zo_differences(0, base, plus, None)
        if normalize == "rms":
            a, mean_square = _native.zo_coefficients_rms(d, int(rates[s]), mean_square)
        else:
            a = _native.zo_coefficients_raw(d, int(rates[s]))
        assert result["losses"][s] == base
        assert np.array_equal(result["differences"][s], d)
        assert np.array_equal(result["coefficients"][s], a)
        _update(twin, states[1], a, 100 + s, beta)
    assert result["mean_square"] == mean_square
    for got, want in zip(problem.weights(), twin.weights(), strict=True):
        assert np.array_equal(got, want)
    for got, want in zip(states[0][0] + states[0][1], states[1][0] + states[1][1], strict=True):
        assert got is None or np.array_equal(got, want)


def _update(problem, state, a, step, beta):
    signs = draws = 0
    for i, (t, unit, limit) in enumerate(problem.trainable):
        w = problem.engine.read_tensor(t)
        _native.zo_update(
            w.reshape(-1),
            state[1][i],
            state[0][i],
            a,
            problem.seed,
            step,
            beta,
            unit,
            limit,
            signs,
            draws,
        )
        problem.engine.write_tensor(t, w)
        signs += -(-w.size // 32)
        draws += -(-w.size // 2)


def test_arguments_out_of_range_are_refused(mnist_int8):
    problem = Problem(mnist_int8, 1)
    feeds, targets = problem.data(4, "cross_entropy")
    good = problem.arguments(feeds, targets, "cross_entropy", "one_sided")

    def refused(message, **changes):
        with pytest.raises(ValueError, match=message):
            problem.engine.zo_losses(**{**good, "step": 0, "q": 2, **changes})

    refused("labels of 0 to 9, got 10 at sample 2", targets=np.array([0, 1, 10, 2], np.int32))
    refused("int32 labels", targets=targets.astype(np.int64))
    refused("int32 labels", targets=targets[:3].copy())
    refused("q of 1 to 128", q=129)
    refused("q of 2 to 128", q=1, estimator="leave_one_out")
    refused("mu of 1 to 63", mu=64)
    refused("loss multiplier", mult=1 << 23)
    refused("loss 'cross_entropy'", loss="mse")
    refused("estimator", estimator="three_sided")
    weights = problem.trainable[0][0]
    refused("a limit that leaves room", trainable=[(weights, 1, 127)])
    refused("twice", trainable=[(weights, 1, 126), (weights, 1, 126)])
    refused("trainable tensors, got none", trainable=[])
    values = problem.engine.read_tensor(weights)
    values.flat[3] = 127
    problem.engine.write_tensor(weights, values)
    refused("so that a perturbation can be undone, got 127")
