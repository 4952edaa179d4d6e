"""NumPy reference of the integer-only methods, written as docs/priot_arithmetic.md prints them.

Slow and plain on purpose: every kernel in `micro_ops` is held against it bit for bit. Values are
int64; where a kernel saturates, the reference says so.
"""

import numpy as np

ROUNDING_MODES = ("half_up", "half_away", "pseudo_stochastic", "stochastic", "tflm")
USES = {"forward": 0, "backward": 1, "update": 2}


def _mix(x):
    x = np.asarray(x, np.uint32).copy()
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def rng_key(seed, step, layer, use):
    """Key of the rounding draws of one layer, step and use (docs/zo_arithmetic.md)."""
    stream = (0x80000000 + 8 * layer + USES[use]) & 0xFFFFFFFF
    with np.errstate(over="ignore"):
        return _mix(_mix(_mix(np.uint32(seed)) + np.uint32(step)) + np.uint32(stream))


def rng_words(key, size):
    """Words of blocks 0 .. size - 1."""
    with np.errstate(over="ignore"):
        return _mix(key + np.arange(size, dtype=np.uint32) * np.uint32(0x9E3779B9))


def round_shift(values, shift, mode, key=0):
    """values / 2^shift, rounded; `pseudo_stochastic` is NITI's."""
    v = np.asarray(values, np.int64)
    if shift == 0:
        return v
    if mode == "half_up":
        return (v + (1 << (shift - 1))) >> shift
    if mode == "half_away":
        return np.sign(v) * ((np.abs(v) + (1 << (shift - 1))) >> shift)
    if mode == "pseudo_stochastic":
        magnitude = np.abs(v)
        dropped = magnitude & ((1 << shift) - 1)
        high = dropped >> (shift // 2)
        low = (dropped & ((1 << (shift // 2)) - 1)) << (shift & 1)
        return np.sign(v) * ((magnitude >> shift) + (high > low))
    if mode == "stochastic":
        draws = rng_words(key, v.size).reshape(v.shape).astype(np.int64) >> (32 - shift)
        return (v + draws) >> shift
    if mode == "tflm":
        half = (v + 1) >> 1
        if shift == 1:
            return half
        rest = shift - 1
        mask = (1 << rest) - 1
        return (half >> rest) + ((half & mask) > (mask >> 1) + (half < 0))
    raise ValueError(f"Expected a rounding mode of {ROUNDING_MODES}, got {mode!r}")


def requantize(values, shift, mode, low=-127, high=127, key=0):
    return np.clip(round_shift(values, shift, mode, key), low, high)


def bit_length(values):
    return int(np.max(np.abs(np.asarray(values, np.int64)), initial=0)).bit_length()


def _windows(size, out, kernel, stride, pad):
    """Input index of each (output, kernel) pair, -1 outside."""
    index = np.arange(out)[:, None] * stride - pad + np.arange(kernel)[None, :]
    return np.where((index >= 0) & (index < size), index, -1)


def patches(x, s):
    """[out_y, out_x, ky, kx, in] patches of x[y, x, in], zeros outside."""
    ys = _windows(
        s["in_height"], s["out_height"], s["kernel_height"], s["stride_height"], s["pad_top"]
    )
    xs = _windows(
        s["in_width"], s["out_width"], s["kernel_width"], s["stride_width"], s["pad_left"]
    )
    padded = np.zeros((s["in_height"] + 1, s["in_width"] + 1, s["in_channels"]), np.int64)
    padded[:-1, :-1] = x
    return padded[ys[:, None, :, None], xs[None, :, None, :]]


def conv(x, w, s):
    """Accumulators [oy, ox, out] of weights [out, ky, kx, in]."""
    return np.einsum("abklc,oklc->abo", patches(x, s), w.astype(np.int64))


def conv_backward(error, w, s):
    """W^T error: [y, x, in]."""
    spread = np.einsum("abo,oklc->abklc", error.astype(np.int64), w.astype(np.int64))
    return _scatter(spread, s)


def conv_gradient(x, error, s):
    """err x^T: [out, ky, kx, in]."""
    return np.einsum("abo,abklc->oklc", error.astype(np.int64), patches(x, s))


def depthwise(x, w, s):
    """Accumulators [oy, ox, out] of weights [ky, kx, out]."""
    repeat = s["out_channels"] // s["in_channels"]
    return np.einsum("abklo,klo->abo", np.repeat(patches(x, s), repeat, -1), w.astype(np.int64))


def depthwise_backward(error, w, s):
    repeat = s["out_channels"] // s["in_channels"]
    spread = np.einsum("abo,klo->abklo", error.astype(np.int64), w.astype(np.int64))
    spread = spread.reshape(*spread.shape[:-1], s["in_channels"], repeat).sum(-1)
    return _scatter(spread, s)


def depthwise_gradient(x, error, s):
    repeat = s["out_channels"] // s["in_channels"]
    return np.einsum("abo,abklo->klo", error.astype(np.int64), np.repeat(patches(x, s), repeat, -1))


def _scatter(spread, s):
    ys = _windows(
        s["in_height"], s["out_height"], s["kernel_height"], s["stride_height"], s["pad_top"]
    )
    xs = _windows(
        s["in_width"], s["out_width"], s["kernel_width"], s["stride_width"], s["pad_left"]
    )
    sums = np.zeros((s["in_height"] + 1, s["in_width"] + 1, spread.shape[-1]), np.int64)
    np.add.at(sums, (ys[:, None, :, None], xs[None, :, None, :]), spread)
    return sums[:-1, :-1]


def max_pool(x, s):
    """Maxima [oy, ox, c] and the first place of each inside its window."""
    ys = _windows(
        s["in_height"], s["out_height"], s["filter_height"], s["stride_height"], s["pad_top"]
    )
    xs = _windows(
        s["in_width"], s["out_width"], s["filter_width"], s["stride_width"], s["pad_left"]
    )
    padded = np.full((s["in_height"] + 1, s["in_width"] + 1, s["channels"]), -129, np.int64)
    padded[:-1, :-1] = x
    view = padded[ys[:, None, :, None], xs[None, :, None, :]]
    flat = view.reshape(s["out_height"], s["out_width"], -1, s["channels"])
    return flat.max(2), flat.argmax(2)


def max_pool_backward(error, place, s):
    out = np.zeros((s["in_height"], s["in_width"], s["channels"]), np.int64)
    for oy, ox, c in np.argwhere(error):
        ky, kx = divmod(int(place[oy, ox, c]), s["filter_width"])
        y = oy * s["stride_height"] - s["pad_top"] + ky
        x = ox * s["stride_width"] - s["pad_left"] + kx
        out[y, x, c] = np.clip(out[y, x, c] + error[oy, ox, c], -127, 127)
    return out


def cross_entropy_error(logits, exponent, label):
    """Integer cross-entropy error (NITI, Section 3.4), before and after its last shift."""
    q = np.asarray(logits, np.int64)
    if exponent <= -7:
        e = max(exponent, -9)
        q = q >> min(e - exponent, 8)
        y = (1 << (1 - 2 * e)) + q * (1 << (1 - e)) + q * q
    else:
        s = (q * 47274) >> (15 - min(exponent, 15))
        k = np.maximum(s - s.max() + 10, 0)
        y = (1 << k) - 1
    wide = (y << 11) // y.sum()
    wide[label] -= wide.sum()
    return wide, np.clip(round_shift(wide, 4, "half_away"), -127, 127)


def masked(w, scores, scored, threshold):
    """Weights that take part: an edge without a score is never pruned."""
    return np.where(scored & (scores < threshold), 0, w)


def score_step(w, gradient, shift, mode, key=0):
    """dS = W * dW saturated to int32, one shift, saturated to int8. PRIOT paper, Section III."""
    product = np.clip(w.astype(np.int64) * gradient, -(2**31), 2**31 - 1)
    return requantize(product, shift, mode, key=key)


def weight_step(gradient, shift, mode, key=0):
    """NITI's update: the gradient shifted to int8."""
    return requantize(gradient, shift, mode, key=key)
