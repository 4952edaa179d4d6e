"""Every kernel at every instruction set against the NumPy reference and against TFLM itself."""

import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from tflm_train import _native

sys.path.insert(0, str(Path(__file__).parent))
import kernel_cases  # noqa: E402
import reference_kernels as ref  # noqa: E402
from engine_models import simd_levels  # noqa: E402
from single_op import SingleOp  # noqa: E402

LEVELS = simd_levels()


def check(kind, seed, levels=LEVELS):
    """One random case of a kind; returns it."""
    rng = np.random.default_rng([zlib.crc32(kind.encode()), seed])
    raw, inputs, expected = kernel_cases.KINDS[kind](rng)
    for level in levels:
        engine = _native.Engine(raw, simd=level)
        got = engine.run(inputs if len(inputs) > 1 else inputs[0])
        assert got.shape == expected.shape, f"{kind} {seed} {level}"
        assert np.array_equal(got, expected), (
            f"{kind}, seed {seed}, {level}: {np.sum(got != expected)} of {got.size} differ"
        )
    return raw, inputs, expected


@pytest.mark.parametrize("kind", kernel_cases.KINDS)
def test_a_kernel_equals_its_reference(kind):
    for seed in range(60):
        check(kind, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", kernel_cases.KINDS)
def test_a_kernel_equals_its_reference_in_many_cases(kind):
    for seed in range(1000, 1000 + 100_000 // len(kernel_cases.KINDS) + 1):
        check(kind, seed)


@pytest.mark.parametrize("kind", kernel_cases.KINDS)
def test_the_reference_equals_tflm(kind):
    runtime = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="needs the tflite-micro wheel"
    )
    compared = 0
    for seed in range(12):
        raw, inputs, expected = check(kind, seed, levels=LEVELS[:1])
        interpreter = runtime.Interpreter.from_bytes(raw, arena_size=1 << 20)
        per_sample = expected.shape[0] // len(inputs[0])
        for i in range(min(2, len(inputs[0]))):
            for number, x in enumerate(inputs):
                interpreter.set_input(x[i : i + 1], number)
            interpreter.invoke()
            want = expected[i * per_sample : (i + 1) * per_sample]
            got = interpreter.get_output(0)
            assert np.array_equal(got.reshape(want.shape), want), f"{kind}, seed {seed}"
            compared += 1
    assert compared >= 12


def test_a_dense_multiplier_is_the_double_product_of_the_scales():
    # Sums within 1e-6 of a rounding border tell a product in double from one in float.
    runtime = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="needs the tflite-micro wheel"
    )
    rng = np.random.default_rng(3)
    told_apart = 0
    for _ in range(6):
        si, sw = (np.float32(10 ** rng.uniform(-3.2, -2.5)) for _ in range(2))
        so = np.float32(10 ** rng.uniform(-0.5, 0.5))
        halves = (rng.integers(-120, 120, 4000) + 0.5) / (float(si) * float(sw) / float(so))
        bias = (np.round(halves) + rng.integers(-3, 4, 4000)).astype(np.int32)
        m = SingleOp("FULLY_CONNECTED")
        inputs = [
            m.activation([1, 1], si, 0),
            m.constant(np.zeros((4000, 1), np.int8), [sw]),
            m.constant(bias, [si * sw]),
        ]
        raw = m.build(inputs, m.activation([1, 4000], so, 0))
        x = np.zeros((1, 1), np.int8)
        got = _native.Engine(raw).run(x)
        in_float = ref.quantize_multiplier(np.float64(si * sw) / np.float64(so))
        told_apart += np.sum(ref.requantize(bias, *in_float, 0, -128, 127) != got)
        interpreter = runtime.Interpreter.from_bytes(raw, arena_size=1 << 20)
        interpreter.set_input(x, 0)
        interpreter.invoke()
        assert np.array_equal(interpreter.get_output(0), got)
    assert told_apart > 0
