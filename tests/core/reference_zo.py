"""NumPy reference of docs/zo_arithmetic.md, written from the formulas and nothing else."""

import math

import numpy as np

_M32 = 0xFFFFFFFF
EXP2 = [math.floor(2**20 * 2 ** (-i / 256) + 0.5) for i in range(257)]
LOG2 = [math.floor(65536 * math.log2(1 + i / 256) + 0.5) for i in range(257)]
COSINE = [math.floor(32768 * (1 + math.cos(math.pi * i / 128)) + 0.5) for i in range(129)]


def mix(x):
    x &= _M32
    x ^= x >> 16
    x = (x * 0x7FEB352D) & _M32
    x ^= x >> 15
    x = (x * 0x846CA68B) & _M32
    return x ^ (x >> 16)


def key(seed, step, k):
    return mix(mix(mix(seed) + step) + k)


def word(the_key, block):
    return mix(the_key + block * 0x9E3779B9)


def signs(seed, step, k, first_block, size):
    the_key = key(seed, step, k)
    words = [word(the_key, first_block + b) for b in range((size + 31) // 32)]
    return np.array([1 if words[j >> 5] >> (j & 31) & 1 else -1 for j in range(size)], np.int64)


def draws(seed, step, first_block, size):
    the_key = key(seed, step, _M32)
    words = [word(the_key, first_block + b) for b in range((size + 1) // 2)]
    return np.array([words[j >> 1] >> (16 * (j & 1)) & 0xFFFF for j in range(size)], np.int64)


def cross_entropy(logits, label, mult):
    logits = [int(v) for v in logits]
    highest = max(logits)
    total = 0
    for value in logits:
        t = (highest - value) * mult
        e, f = t >> 16, t & 0xFFFF
        if e <= 20:
            i = f >> 8
            total += (EXP2[i] + (((EXP2[i + 1] - EXP2[i]) * (f & 255)) >> 8)) >> e
    b = total.bit_length() - 1
    g = (total << (31 - b)) & 0x7FFFFFFF
    i = g >> 23
    log = (b - 20) * 65536 + LOG2[i] + (((LOG2[i + 1] - LOG2[i]) * ((g >> 15) & 255)) >> 8)
    return log + (highest - logits[label]) * mult


def truncated(a, b):
    return abs(a) // b * (1 if a >= 0 else -1)


def differences(estimator, base, plus, minus):
    q = len(plus)
    plus = [int(v) for v in plus]
    if estimator == "one_sided":
        d = [v - base for v in plus]
    elif estimator == "leave_one_out":
        d = [truncated(q * v - sum(plus), q - 1) for v in plus]
    else:
        d = [truncated(a - int(b), 2) for a, b in zip(plus, minus, strict=True)]
    return [max(-(1 << 30), min(1 << 30, v)) for v in d]


def coefficients_rms(d, lr_q16, v):
    q = len(d)
    n = sum(x * x // q for x in d)
    if n == 0:
        return [0] * q, v
    v = n if v == 0 else v + ((n - v) >> 4)
    root = max(1, math.isqrt(v))
    return [_signed(x, lr_q16 * abs(x) // (q * root)) for x in d], v


def coefficients_raw(d, multiplier):
    return [_signed(x, (abs(x) * multiplier) >> 28) for x in d]


def _signed(x, magnitude):
    return min(magnitude, 1 << 23) * (-1 if x < 0 else 1)


def cosine_decay(lr_q16, step, total):
    p = (min(step, total) << 15) // total
    i = p >> 8
    c = COSINE[i]
    if p & 255:
        c += ((COSINE[i + 1] - c) * (p & 255)) >> 8
    return (lr_q16 * c) >> 16


def update(w, momentum, a, seed, step, *, beta_q8, unit, limit, blocks, mode, shadow=None):
    """New (w, momentum, shadow) as int64/float32 arrays; momentum may be None."""
    size = len(w)
    u = np.zeros(size, np.int64)
    for k, value in enumerate(a):
        u += int(value) * signs(seed, step, k, blocks[0], size)
    m = u
    if momentum is not None:
        old = momentum.astype(np.int64)
        m = np.clip(old - ((old * (256 - beta_q8)) >> 8) + u, -(1 << 30), 1 << 30)
    w = w.astype(np.int64)
    if mode == "stochastic":
        w = w - ((m * unit + draws(seed, step, blocks[1], size)) >> 16)
        return np.clip(w, -limit, limit), m, None
    if mode == "int16_shadow":
        s = np.clip(shadow.astype(np.int64) - ((m + 128) >> 8), -256 * limit, 256 * limit)
        return (s + 128) >> 8, m, s
    f = np.clip(shadow - m.astype(np.float32) / np.float32(65536), -limit, limit)
    return np.floor(f + np.float32(0.5)).astype(np.int64), m, f.astype(np.float32)
