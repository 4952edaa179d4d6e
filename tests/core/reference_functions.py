"""NumPy twins of softmax, logistic and the functions of one int8 value, in fixed point.

The exponential is a fourth-degree Taylor polynomial on [-1/4, 0) and a factor for each higher bit;
the reciprocal is Newton-Raphson from 48/17 - 32/17 x. Both in 32-bit fixed point, scalar Python.
"""

import math

import numpy as np
from reference_kernels import (
    INT32_MAX,
    doubling_high_mul,
    multiply,
    quantize_multiplier,
    rounding_shift_right,
    wrap,
)


def _mul(a, b):
    return int(doubling_high_mul(a, b))


def _round(x, exponent):
    return int(rounding_shift_right(x, exponent))


def _saturate(x):
    return max(-(2**31), min(INT32_MAX, x))


def exp_on_negative(a, integer_bits):
    """exp of a fixed-point number <= 0 with that many integer bits; the result has none."""
    if a == 0:
        return INT32_MAX
    fraction = 31 - integer_bits
    quarter = 1 << (fraction - 2)
    rest = (a & (quarter - 1)) - quarter
    # exp(rest) around -1/8.
    x = _saturate(rest << integer_bits) + (1 << 28)
    x2 = _mul(x, x)
    x3, x4 = _mul(x2, x), _mul(x2, x2)
    third = round(2**31 / 3)
    tail = _round(_mul(_round(x4, 2) + x3, third) + x2, 1)
    e = round(math.exp(-1 / 8) * 2**31)
    result = e + _mul(e, x + tail)
    for power in range(-2, integer_bits):
        if ((rest - a) >> (fraction + power)) & 1:
            result = _mul(result, round(math.exp(-(2.0**power)) * 2**31))
    return result


def one_over_one_plus(a):
    """1 / (1 + a) for a in [0, 1), no integer bits in and out."""
    half = (a + INT32_MAX + 1) // 2
    x = round(48 / 17 * 2**29) + _mul(half, -round(32 / 17 * 2**29))
    for _ in range(3):
        error = (1 << 29) - _mul(half, x)
        x += _saturate(_mul(x, error) << 2)
    return _saturate(x << 1)


def softmax(x, input_scale, beta=1.0):
    """int8 softmax of rows [rows, classes], output scale 1/256 and zero point -128."""
    real = min(
        np.float64(np.float32(beta)) * np.float64(np.float32(input_scale)) * 2**26, 2**31 - 1
    )
    multiplier, left = quantize_multiplier(real)
    least = -math.floor(31 * 2**26 / 2**left)
    out = np.full(x.shape, -128, np.int64)
    for row, values in enumerate(x.astype(np.int64)):
        diffs = values - values.max()
        exps = {
            int(d): exp_on_negative(_mul(int(wrap(int(d) << left)), multiplier), 5)
            for d in np.unique(diffs)
            if d >= least
        }
        total = sum(_round(exps[int(d)], 12) for d in diffs if d >= least)
        headroom = 32 - total.bit_length()
        scale = one_over_one_plus((total << headroom) - 2**31)
        for c, d in enumerate(diffs):
            if d >= least:
                out[row, c] += _round(_mul(scale, exps[int(d)]), 12 - headroom + 31 - 8)
    return np.clip(out, -128, 127).astype(np.int8)


def logistic(x, input_scale, input_zero):
    """int8 logistic, output scale 1/256 and zero point -128."""
    multiplier, shift = quantize_multiplier(np.float64(np.float32(input_scale)) * 2**27)
    radius = math.floor(15 * 2**27 / 2**shift)

    def one(value):
        value = int(value) - input_zero
        if value <= -radius:
            return -128
        if value >= radius:
            return 127
        a = int(multiply(value, multiplier, shift))
        if a == 0:
            q = 1 << 30
        else:
            q = one_over_one_plus(exp_on_negative(-abs(a), 4))
            q = q if a > 0 else INT32_MAX - q
        return max(-128, min(127, _round(q, 23) - 128))

    table = np.array([one(v) for v in range(-128, 128)], np.int8)
    return table[x.astype(np.int64) + 128]


def requantize(x, input_scale, input_zero, output_scale, output_zero):
    """QUANTIZE from int8 to int8: the ratio of the scales in double."""
    ratio = np.float64(np.float32(input_scale)) / np.float64(np.float32(output_scale))
    out = multiply(x.astype(np.int64) - input_zero, *quantize_multiplier(ratio)) + output_zero
    return np.clip(out, -128, 127).astype(np.int8)


def relu(x, input_scale, input_zero, output_scale, output_zero):
    """RELU: the ratio of the scales in float."""
    ratio = np.float64(np.float32(input_scale) / np.float32(output_scale))
    out = multiply(x.astype(np.int64) - input_zero, *quantize_multiplier(ratio)) + output_zero
    return np.clip(out, output_zero, 127).astype(np.int8)


def leaky_relu(x, alpha, input_scale, input_zero, output_scale, output_zero):
    """LEAKY_RELU with its two multipliers, float products."""
    si, so = np.float32(input_scale), np.float32(output_scale)
    slope = np.float64(si * np.float32(alpha) / so)
    value = x.astype(np.int64) - input_zero
    up = multiply(value, *quantize_multiplier(np.float64(si / so)))
    down = multiply(value, *quantize_multiplier(abs(slope))) * (-1 if slope < 0 else 1)
    return np.clip(np.where(value >= 0, up, down) + output_zero, -128, 127).astype(np.int8)
