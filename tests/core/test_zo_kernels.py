"""The C++ kernels of a ZO step against the NumPy reference, bit for bit."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tflm_train import _native

sys.path.insert(0, str(Path(__file__).parent))
import reference_zo as ref  # noqa: E402

U32 = st.integers(0, 2**32 - 1)
MODES = ["stochastic", "int16_shadow", "float_shadow"]


def test_mix_gives_the_words_of_the_published_finalizer():
    # lowbias32 by hand for x = 1: 1*0x7feb352d; ^>>15; *0x846ca68b; ^>>16.
    x = 0x7FEB352D
    x ^= x >> 15
    x = (x * 0x846CA68B) & 0xFFFFFFFF
    x ^= x >> 16
    assert ref.mix(1) == x
    # The whole chain on seed 0, step 0, direction 0: mix(0) is 0, so the key is 0 as well.
    words = _native.rng_words(seed=0, step=0, stream=0, first_block=0, count=3)
    assert words.tolist() == [0, ref.mix(0x9E3779B9), ref.mix(0x3C6EF372)]


def test_pinned_words_never_change():
    words = _native.rng_words(seed=42, step=7, stream=3, first_block=5, count=4)
    assert words.tolist() == [ref.word(ref.key(42, 7, 3), 5 + i) for i in range(4)]
    assert words.tolist() == PINNED


PINNED = [1497994645, 3797186258, 2625746570, 1628743170]


@settings(max_examples=60, deadline=None)
@given(U32, U32, U32, st.integers(0, 1 << 20), st.integers(0, 70))
def test_words_equal_the_reference(seed, step, stream, first, count):
    got = _native.rng_words(seed, step, stream, first, count)
    assert got.tolist() == [ref.word(ref.key(seed, step, stream), first + i) for i in range(count)]


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 64, 100])
def test_perturbing_adds_the_signs_and_subtracting_restores(size):
    w = np.linspace(-126, 126, size).astype(np.int8)
    before = w.copy()
    _native.zo_perturb(w, 5, 9, 2, 11, 1)
    assert np.array_equal(w, before + ref.signs(5, 9, 2, 11, size))
    _native.zo_perturb(w, 5, 9, 2, 11, -1)
    assert np.array_equal(w, before)


def test_neighbouring_seeds_steps_and_directions_are_uncorrelated():
    size = 4096
    streams = [(s, t, k) for s in (0, 1, 2) for t in (0, 1) for k in (0, 1)]
    z = np.zeros((len(streams), size), np.int32)
    for row, (s, t, k) in zip(z, streams, strict=True):
        _native.zo_perturb(row, s, t, k, 1, 1)
    z = z.astype(float)
    # Standard deviation of a mean of 4096 signs is 1/64; 5 of them leave 1 in 1.7 million.
    assert np.abs(z.mean(1)).max() < 5 / 64
    correlation = z @ z.T / size - np.eye(len(z))
    assert np.abs(correlation).max() < 5 / 64


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(1, 40), st.integers(1, 2**23 - 1))
def test_cross_entropy_equals_the_reference(data, classes, mult):
    logits = data.draw(st.lists(st.integers(-128, 127), min_size=classes, max_size=classes))
    label = data.draw(st.integers(0, classes - 1))
    got = _native.zo_cross_entropy(np.array([logits], np.int8), np.array([label], np.int32), mult)
    assert got.tolist() == [ref.cross_entropy(logits, label, mult)]


def test_cross_entropy_is_the_real_one_within_a_thousandth_of_a_bit():
    rng = np.random.default_rng(0)
    for scale in (0.01, 0.1, 0.5):
        mult = round(scale * math.log2(math.e) * 65536)
        logits = rng.integers(-128, 128, (50, 10)).astype(np.int8)
        labels = rng.integers(0, 10, 50).astype(np.int32)
        real = logits * scale
        exact = np.log(np.exp(real).sum(1)) - real[np.arange(50), labels]
        got = _native.zo_cross_entropy(logits, labels, mult) * math.log(2) / 65536
        assert np.abs(got - exact).max() < 1e-3 * (1 + exact.max() * 0.05)


def test_squared_error_counts_squared_steps():
    got = _native.zo_squared_error(
        np.array([[127, -128, 3]], np.int8), np.array([[-128, 127, 1]], np.int8)
    )
    assert got.tolist() == [255**2 + 255**2 + 4]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=8), st.integers(0, 2**40))
def test_differences_equal_the_reference(plus, base):
    minus = plus[::-1]
    for number, name in enumerate(["one_sided", "leave_one_out", "two_sided"]):
        got = _native.zo_differences(
            number, base, np.array(plus, np.int64), np.array(minus, np.int64)
        )
        assert got.tolist() == ref.differences(name, base, plus, minus)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=16),
    st.integers(0, 2**24),
    st.integers(0, 2**60),
)
def test_coefficients_equal_the_reference(d, lr_q16, v):
    d32 = np.array(d, np.int32)
    got, now = _native.zo_coefficients_rms(d32, lr_q16, v)
    assert (got.tolist(), now) == ref.coefficients_rms(d, lr_q16, v)
    assert _native.zo_coefficients_raw(d32, lr_q16).tolist() == ref.coefficients_raw(d, lr_q16)


def test_equal_differences_step_by_the_learning_rate():
    # All |d| equal: d / rms is +-1, so a_k = lr / q.
    got, _ = _native.zo_coefficients_rms(np.array([500, -500], np.int32), 65536, 0)
    assert got.tolist() == [32768, -32768]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**24), st.integers(1, 10**6), st.integers(0, 2 * 10**6))
def test_cosine_decay_equals_the_reference(lr, total, step):
    assert _native.zo_cosine_decay(lr, step, total) == ref.cosine_decay(lr, step, total)


def test_cosine_decay_starts_whole_halves_in_the_middle_and_ends_at_zero():
    got = [_native.zo_cosine_decay(65536, t, 100) for t in (0, 50, 100, 200)]
    assert got == [65536, 32768, 0, 0]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_square_root_is_the_floor(v):
    assert _native.zo_square_root(v) == math.isqrt(v)


@settings(max_examples=120, deadline=None)
@given(st.data(), st.sampled_from(MODES), st.sampled_from([1, 2, 31, 32, 33, 65]), U32)
def test_updates_equal_the_reference(data, mode, size, seed):
    rng = np.random.default_rng(seed)
    q = data.draw(st.integers(1, 5))
    a = rng.integers(-(2**18), 2**18, q).astype(np.int32)
    beta = data.draw(st.sampled_from([0, 1, 128, 230, 255]))
    w = rng.integers(-126, 127, size).astype(np.int8)
    momentum = rng.integers(-(2**21), 2**21, size).astype(np.int32) if beta else None
    shadow = None
    if mode == "int16_shadow":
        shadow = w.astype(np.int16) * 256
    elif mode == "float_shadow":
        shadow = w.astype(np.float32)
    want = ref.update(
        w, momentum, a, seed, 3,
        beta_q8=beta, unit=1, limit=126, blocks=(4, 6), mode=mode, shadow=shadow,
    )  # fmt: skip
    saturated = _native.zo_update(w, shadow, momentum, a, seed, 3, beta, 1, 126, 4, 6)
    assert np.array_equal(w, want[0])
    if momentum is not None:
        assert np.array_equal(momentum, want[1])
    if shadow is not None:
        assert np.array_equal(shadow, want[2])
    assert saturated == np.sum(
        np.abs(shadow if shadow is not None else w)
        == (256 * 126 if mode == "int16_shadow" else 126)
    )


def test_a_bias_moves_by_its_unit():
    w = np.zeros(3, np.int32)
    a = np.array([65536], np.int32)
    _native.zo_update(w, None, None, a, 1, 2, 0, 1000, 1 << 30, 0, 0)
    z = ref.signs(1, 2, 0, 0, 3)
    assert np.array_equal(w, -1000 * z)


def test_stochastic_rounding_is_unbiased_where_round_to_nearest_stands_still():
    w = np.zeros(20000, np.int32)
    a = np.array([6554], np.int32)  # a tenth of a step
    _native.zo_update(w, None, None, a, 1, 2, 0, 1, 126, 0, 0)
    z = ref.signs(1, 2, 0, 0, w.size)
    assert abs((w * -z).mean() - 0.1) < 0.01


def test_one_direction_moves_the_weights_downhill():
    # Loss grew along z: the coefficient is positive and every weight moves against its sign.
    d = _native.zo_differences(0, 100, np.array([160], np.int64), None)
    a, _ = _native.zo_coefficients_rms(d, 65536, 0)
    w = np.zeros(64, np.int8)
    _native.zo_update(w, None, None, a, 1, 2, 0, 1, 126, 0, 0)
    assert np.array_equal(w, -ref.signs(1, 2, 0, 0, 64))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: _native.zo_cross_entropy(np.zeros((1, 3), np.int8), np.array([3], np.int32), 1),
         "got 3 at sample 0"),
        (lambda: _native.zo_cross_entropy(np.zeros((1, 3), np.int8), np.array([0], np.int32), 0),
         "loss multiplier"),
        (lambda: _native.zo_differences(1, 0, np.zeros(1, np.int64), None), "leave_one_out"),
        (lambda: _native.zo_differences(2, 0, np.zeros(2, np.int64), None), "minus"),
    ],
)  # fmt: skip
def test_wrong_sizes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
