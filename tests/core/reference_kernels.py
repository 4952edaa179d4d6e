"""NumPy twins of the int8 kernels, from the formulas, slow and plain: the oracle of the tests.

Every accumulator is int64 here and checked to fit 32 bits, so that an overflow in a test case would
show. Multipliers are computed from scales with the float and double steps TFLM uses.
"""

import numpy as np

INT32_MAX = 2**31 - 1


def quantize_multiplier(value):
    """(multiplier, shift) with value = multiplier * 2^(shift - 31), multiplier in [2^30, 2^31)."""
    if value == 0:
        return 0, 0
    q, shift = np.frexp(np.float64(value))
    fixed = int(np.floor(np.float64(q) * 2**31 + 0.5))
    if fixed == 2**31:
        fixed //= 2
        shift += 1
    return (0, 0) if shift < -31 else (fixed, int(shift))


def doubling_high_mul(a, b):
    """round(a * b / 2^31), ties up, as int64; the one overflow saturates."""
    a, b = np.asarray(a, np.int64), np.int64(b)
    return np.minimum((a * b + 2**30) >> 31, INT32_MAX)


def rounding_shift_right(x, exponent):
    """round(x / 2^exponent), ties away from zero."""
    x = np.asarray(x, np.int64)
    magnitude = np.abs(x)
    half = (1 << exponent) >> 1
    return np.sign(x) * ((magnitude + half) >> exponent)


def multiply(x, multiplier, shift):
    """x * multiplier * 2^(shift - 31) with both roundings."""
    left, right = max(shift, 0), max(-shift, 0)
    return rounding_shift_right(doubling_high_mul(wrap(np.asarray(x) << left), multiplier), right)


def wrap(x):
    """Into the 32-bit range, as the machine does."""
    return (np.asarray(x, np.int64) + 2**31) % 2**32 - 2**31


def requantize(acc, multiplier, shift, offset, low, high):
    """int8 from accumulators [..., channels] with one scale or one per channel."""
    acc = np.asarray(acc, np.int64)
    multiplier, shift = np.atleast_1d(multiplier), np.atleast_1d(shift)
    out = np.empty(acc.shape, np.int64)
    for c in range(acc.shape[-1]):
        i = c if len(multiplier) > 1 else 0
        out[..., c] = multiply(acc[..., c], int(multiplier[i]), int(shift[i]))
    return np.clip(out + offset, low, high).astype(np.int8)


def activation_range(activation, scale, zero_point):
    """(low, high) of a fused activation, float arithmetic as in TFLM."""

    def code(value):
        q = np.float32(value) / np.float32(scale)
        return zero_point + int(np.copysign(np.floor(np.abs(q) + np.float32(0.5)), q))

    low, high = -128, 127
    if activation in ("relu", "relu6"):
        low = max(low, code(0.0))
    if activation == "relu6":
        high = min(high, code(6.0))
    if activation == "relu_n1_to_1":
        low, high = max(low, code(-1.0)), min(high, code(1.0))
    return low, high


def same_padding(size, filter_size, stride, dilation):
    """(output size, padding before)."""
    out = -(-size // stride)
    total = max((out - 1) * stride + (filter_size - 1) * dilation + 1 - size, 0)
    return out, total // 2


def valid_padding(size, filter_size, stride, dilation):
    """(output size, 0)."""
    return (size + stride - ((filter_size - 1) * dilation + 1)) // stride, 0


def windows(x, kernel, stride, dilation, same):
    """Patches [n, oh, ow, kh, kw, c] of x (real values: padding is 0) for any convolution."""
    rule = same_padding if same else valid_padding
    n, h, w, c = x.shape
    oh, top = rule(h, kernel[0], stride[0], dilation[0])
    ow, left = rule(w, kernel[1], stride[1], dilation[1])
    out = np.zeros((n, oh, ow, kernel[0], kernel[1], c), np.int64)
    inside = np.zeros((oh, ow, kernel[0], kernel[1]), bool)
    for oy in range(oh):
        for ox in range(ow):
            for ky in range(kernel[0]):
                for kx in range(kernel[1]):
                    y = oy * stride[0] - top + ky * dilation[0]
                    xx = ox * stride[1] - left + kx * dilation[1]
                    if 0 <= y < h and 0 <= xx < w:
                        out[:, oy, ox, ky, kx] = x[:, y, xx]
                        inside[oy, ox, ky, kx] = True
    return out, inside


def conv_scales(input_scale, filter_scales, output_scale):
    """Multipliers and shifts of each channel: double products."""
    pairs = [
        quantize_multiplier(
            np.float64(np.float32(input_scale))
            * np.float64(s)
            / np.float64(np.float32(output_scale))
        )
        for s in np.asarray(filter_scales, np.float32)
    ]
    return [m for m, _ in pairs], [s for _, s in pairs]


def conv2d(x, w, bias, *, zero_point, stride, dilation, same, multiplier, shift, offset, low, high):
    """int8 convolution; w [out, kh, kw, in / groups]."""
    patches, _ = windows(x.astype(np.int64) - zero_point, w.shape[1:3], stride, dilation, same)
    groups = x.shape[3] // w.shape[3]
    per_group = w.shape[0] // groups
    acc = np.zeros((*patches.shape[:3], w.shape[0]), np.int64)
    for o in range(w.shape[0]):
        first = o // per_group * w.shape[3]
        part = patches[..., first : first + w.shape[3]]
        acc[..., o] = (part * w[o].astype(np.int64)).sum((3, 4, 5))
    if bias is not None:
        acc = acc + bias
    return requantize(wrap(acc), multiplier, shift, offset, low, high)


def depthwise(
    x, w, bias, *, zero_point, stride, dilation, same, multiplier, shift, offset, low, high
):
    """int8 depthwise convolution; w [1, kh, kw, out]."""
    patches, _ = windows(x.astype(np.int64) - zero_point, w.shape[1:3], stride, dilation, same)
    per_input = w.shape[3] // x.shape[3]
    acc = (np.repeat(patches, per_input, 5) * w[0].astype(np.int64)).sum((3, 4))
    if bias is not None:
        acc = acc + bias
    return requantize(wrap(acc), multiplier, shift, offset, low, high)


def dense(x, w, bias, *, zero_point, multiplier, shift, offset, low, high):
    """int8 dense layer on rows x [rows, depth]."""
    acc = (x.astype(np.int64) - zero_point) @ w.astype(np.int64).T
    if bias is not None:
        acc = acc + bias
    return requantize(wrap(acc), multiplier, shift, offset, low, high)


def average_pool(x, kernel, stride, same, low, high):
    """Mean of the positions inside, ties away from zero."""
    patches, inside = windows(x.astype(np.int64), kernel, stride, (1, 1), same)
    total = patches.sum((3, 4))
    count = inside.sum((2, 3))[None, :, :, None]
    mean = np.sign(total) * ((np.abs(total) + count // 2) // count)
    return np.clip(mean, low, high).astype(np.int8)


def max_pool(x, kernel, stride, same, low, high):
    """Largest of the positions inside."""
    patches, inside = windows(x.astype(np.int64), kernel, stride, (1, 1), same)
    patches = np.where(inside[None, ..., None], patches, -128)
    return np.clip(patches.max((3, 4)), low, high).astype(np.int8)


def mean(x, axes, *, input_zero, output_zero, input_scale, output_scale):
    """Mean over axes; the division by the count is part of the multiplier."""
    multiplier, shift = quantize_multiplier(
        np.float64(np.float32(input_scale)) / np.float64(np.float32(output_scale))
    )
    count = int(np.prod([x.shape[a] for a in axes]))
    up = min(count.bit_length() - 1, 32, 31 + shift)
    multiplier = (multiplier << up) // count
    acc = x.astype(np.int64).sum(tuple(axes)) - input_zero * count
    return np.clip(multiply(acc, multiplier, shift - up) + output_zero, -128, 127).astype(np.int8)


def add(a, b, *, scales, zeros, low, high):
    """a + b; scales and zeros are (a, b, output)."""
    sa, sb, so = (np.float64(np.float32(s)) for s in scales)
    twice = 2 * max(sa, sb)

    def scaled(x, zero, scale):
        return multiply((x.astype(np.int64) - zero) << 20, *quantize_multiplier(scale / twice))

    total = scaled(a, zeros[0], sa) + scaled(b, zeros[1], sb)
    out = multiply(total, *quantize_multiplier(twice / (2**20 * so)))
    return np.clip(out + zeros[2], low, high).astype(np.int8)


def mul(a, b, *, scales, zeros, low, high):
    """a * b; scales and zeros are (a, b, output)."""
    sa, sb, so = (np.float64(np.float32(s)) for s in scales)
    product = (a.astype(np.int64) - zeros[0]) * (b.astype(np.int64) - zeros[1])
    out = multiply(product, *quantize_multiplier(sa * sb / so))
    return np.clip(out + zeros[2], low, high).astype(np.int8)
