"""Rounding shifts, saturation, integer cross-entropy: vectors by hand, then the reference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflm_train import _native
from tflm_train.priot import _reference as ref

INT32 = st.integers(-(2**31), 2**31 - 1)
MODES = {name: number for number, name in enumerate(ref.ROUNDING_MODES)}

# value, shift -> half_up, half_away, pseudo_stochastic, tflm
VECTORS = [
    (5, 0, 5, 5, 5, 5),
    (5, 1, 3, 3, 3, 3),
    (-5, 1, -2, -3, -3, -2),
    (6, 2, 2, 2, 2, 2),
    (-6, 2, -1, -2, -2, -2),
    (7, 2, 2, 2, 1, 2),
    (-7, 2, -2, -2, -1, -2),
    (11, 3, 1, 1, 1, 2),
    (13, 3, 2, 2, 1, 2),
    (127, 7, 1, 1, 1, 1),
    (-64, 7, 0, -1, -1, -1),
    (2**31 - 1, 31, 1, 1, 1, 1),
    (-(2**31), 31, -1, -1, -1, -1),
]


def native(values, shift, mode, key=0):
    return _native.priot_round_shift(np.asarray(values, np.int32), shift, MODES[mode], key)


@pytest.mark.parametrize(("value", "shift", "up", "away", "pseudo", "tflm"), VECTORS)
def test_rounding_modes_give_the_values_worked_out_by_hand(value, shift, up, away, pseudo, tflm):
    expected = {"half_up": up, "half_away": away, "pseudo_stochastic": pseudo, "tflm": tflm}
    found = {mode: int(native([value], shift, mode)[0]) for mode in expected}
    assert found == expected


def test_pseudo_stochastic_rounds_away_on_every_odd_value_at_shift_one():
    assert native([1, 3, -1, -3, 2, -2], 1, "pseudo_stochastic").tolist() == [1, 2, -1, -2, 1, -1]


def test_tflm_rounding_differs_from_half_up_where_two_roundings_do():
    # 2.75 / 2 rounds to 1.5 first and to 2 then: 11 >> 3 with one rounding is 1.
    assert native([11], 3, "half_up")[0] == 1
    assert native([11], 3, "tflm")[0] == 2


@pytest.mark.parametrize("mode", ref.ROUNDING_MODES)
@given(values=st.lists(INT32, min_size=1, max_size=20), shift=st.integers(0, 31))
def test_rounding_equals_the_reference_for_any_value(mode, values, shift):
    key = ref.rng_key(3, 5, 1, "update")
    expected = ref.round_shift(values, shift, mode, key)
    assert native(values, shift, mode, int(key)).tolist() == expected.tolist()


def test_stochastic_rounding_is_unbiased():
    values = np.full(40000, 300, np.int32)
    key = int(ref.rng_key(0, 0, 0, "forward"))
    assert abs(native(values, 10, "stochastic", key).mean() - 300 / 1024) < 0.01


@given(weight=st.integers(-127, 127), gradient=INT32)
def test_products_saturate_from_64_bits(weight, gradient):
    expected = int(np.clip(weight * gradient, -(2**31), 2**31 - 1))
    assert _native.priot_saturating_product(weight, gradient) == expected


def test_bit_length_counts_in_integers():
    assert [_native.priot_bit_length(v) for v in (0, 1, 2, 127, 128, 2**31)] == [0, 1, 2, 7, 8, 32]


def test_equal_logits_give_the_published_error():
    wide, error = ref.cross_entropy_error(np.zeros(10, np.int8), -3, 4)
    assert wide.tolist() == [204] * 4 + [-1836] + [204] * 5
    assert error.tolist() == [13] * 4 + [-115] + [13] * 5
    found, any_error = _native.priot_cross_entropy_error(np.zeros(10, np.int8), -3, 4)
    assert found.tolist() == error.tolist()
    assert any_error


def test_a_confidently_right_sample_has_no_error_at_all():
    logits = np.array([-60, 100, -80], np.int8)
    error, any_error = _native.priot_cross_entropy_error(logits, -3, 1)
    assert error.tolist() == [0, 0, 0]
    assert not any_error


def test_a_confidently_wrong_sample_has_the_largest_error():
    logits = np.array([-60, 100, -80], np.int8)
    error, _ = _native.priot_cross_entropy_error(logits, -3, 0)
    assert error.tolist() == [-127, 127, 0]


@given(
    logits=st.lists(st.integers(-128, 127), min_size=2, max_size=40),
    exponent=st.integers(-20, 20),
    data=st.data(),
)
def test_the_error_equals_the_reference_for_any_exponent(logits, exponent, data):
    label = data.draw(st.integers(0, len(logits) - 1))
    logits = np.array(logits, np.int8)
    _, expected = ref.cross_entropy_error(logits, exponent, label)
    found, any_error = _native.priot_cross_entropy_error(logits, exponent, label)
    assert found.tolist() == expected.tolist()
    assert any_error == bool(np.any(expected))
    assert int(found[label]) <= 0
    assert all(v >= 0 for i, v in enumerate(found.tolist()) if i != label)
