"""Calls of kernels without weights: element by element, reductions, movements."""

import math

import numpy as np

from converters.c_source_op import Call, activation_range, code_of, multiplier, numbers
from converters.flatbuffer import constant


def _broadcast(op):
    first, second = op.shape(0), op.shape(1)
    rank = max(len(first), len(second))
    first, second = [1] * (rank - len(first)) + first, [1] * (rank - len(second)) + second
    if first == second:
        return f"{{1, {{{int(np.prod(first))}}}, {{1}}, {{1}}}}"
    sizes, steps, stride = [], ([], []), [1, 1]
    for a, b in zip(reversed(first), reversed(second), strict=True):
        op.require(a == b or 1 in (a, b), "shapes that broadcast")
        sizes.insert(0, b if a == 1 else a)
        for k, d in enumerate((a, b)):
            steps[k].insert(0, 0 if d == 1 else stride[k])
            stride[k] *= d
    return f"{{{rank}, {{{numbers(sizes)}}}, {{{numbers(steps[0])}}}, {{{numbers(steps[1])}}}}}"


def _binary(op):
    n, offsets = op.number, [-op.zero(0), -op.zero(1), op.zero(-1)]
    a, b, out = (float(op.scale(i)[0]) for i in (0, 1, -1))
    if op.name == "ADD":
        twice = 2.0 * max(a, b)
        pairs = [
            multiplier(a / twice),
            multiplier(b / twice),
            multiplier(twice / ((1 << 20) * out)),
        ]
        factors = [v for pair in pairs for v in pair]
        kind, function = "AddParams", "AddInt8"
    else:
        factors = list(multiplier(a * b / out))
        kind, function = "MulParams", "MulInt8"
    sizes = [*offsets, *factors, *activation_range(op)]
    tables = (
        f"constexpr {kind} kParams{n} = {{{numbers(sizes)}}};\n"
        f"constexpr BroadcastShape kBroadcast{n} = {_broadcast(op)};\n"
    )
    text = f"{function}(kParams{n}, kBroadcast{n}, {{0}}, {{1}}, {{out}});"
    return Call(tables, text, ("elementwise.h",), int(np.prod(op.shape(-1))))


def _softmax(op):
    depth = op.shape(0)[-1]
    scale = float(op.options.beta) * float(op.scale(0)[0]) * (1 << 26)
    op.require(scale > 1.0, "a scale times beta above 2^-26")
    fixed, shift = multiplier(min(scale, 2147483647.0))
    lowest = -math.floor(31.0 * (1 << 26) / float(1 << shift))
    rows, n = int(np.prod(op.shape(0))) // depth, op.number
    tables = f"constexpr SoftmaxParams kParams{n} = {{{depth}, {fixed}, {shift}, {lowest}}};\n"
    text = f"SoftmaxInt8(kParams{n}, {rows}, {{0}}, {{out}});"
    return Call(tables, text, ("softmax.h",), rows * depth)


def _mean(op):
    dims, axes = op.shape(0), np.ravel(constant(op.model, op.tensor(1)))
    axes = {int(a) % len(dims) for a in axes}
    steps = [int(np.prod(dims[d + 1 :])) for d in range(len(dims))]
    kept = [d for d in range(len(dims)) if d not in axes]
    reduced = sorted(axes)
    count = int(np.prod([dims[d] for d in reduced]))
    fixed, shift = multiplier(float(op.scale(0)[0]) / float(op.scale(-1)[0]))
    up = min(count.bit_length() - 1, 31 + shift)
    fixed, shift = (fixed << up) // count, shift - up

    def parts(which):
        sizes, strides = [dims[d] for d in which], [steps[d] for d in which]
        return f"{{{numbers(sizes)}}}, {{{numbers(strides)}}}"

    n = op.number
    tables = (
        f"constexpr MeanParams kParams{n} = {{{len(kept)}, {len(reduced)}, {parts(kept)}, "
        f"{parts(reduced)}, {op.zero(0)}, {op.zero(-1)}, {fixed}, {shift}}};\n"
    )
    return Call(tables, f"MeanInt8(kParams{n}, {{0}}, {{out}});", ("mean.h",), int(np.prod(dims)))


def _pointwise(op):
    n, size = op.number, int(np.prod(op.shape(0)))
    in_scale, out_scale = op.scale(0)[0], op.scale(-1)[0]
    in_zero, out_zero = op.zero(0), op.zero(-1)
    if op.name in ("RELU6", "RELU_N1_TO_1"):
        low, high = (0.0, 6.0) if op.name == "RELU6" else (-1.0, 1.0)
        codes = [min(127, max(-128, code_of(op, 0, v))) for v in (low, high)]
        low = in_zero if op.name == "RELU6" else codes[0]
        return Call(
            "", f"ClampInt8({low}, {codes[1]}, {size}, {{0}}, {{out}});", ("activations.h",), size
        )
    if op.name == "LOGISTIC":
        fixed, shift = multiplier(float(in_scale) * (1 << 27))
        radius = math.floor(15.0 * (1 << 27) / float(1 << shift))
        kind, function, values = "LogisticParams", "LogisticInt8", [in_zero, fixed, shift, radius]
    elif op.name == "LEAKY_RELU":
        slope = float(np.float32(np.float32(in_scale * np.float32(op.options.alpha)) / out_scale))
        alpha, alpha_shift = multiplier(abs(slope))
        identity = multiplier(float(np.float32(in_scale / out_scale)))
        kind, function = "LeakyReluParams", "LeakyReluInt8"
        values = [in_zero, out_zero, *identity, -alpha if slope < 0 else alpha, alpha_shift]
    else:
        quantize = op.name == "QUANTIZE"
        ratio = (
            float(in_scale) / float(out_scale)
            if quantize
            else float(np.float32(in_scale / out_scale))
        )
        low = -128 if quantize else max(-128, out_zero)
        kind, function = "RequantizeParams", "RequantizeInt8"
        values = [in_zero, out_zero, *multiplier(ratio), low, 127]
    tables = f"constexpr {kind} kParams{n} = {{{numbers(values)}}};\n"
    return Call(
        tables, f"{function}(kParams{n}, {size}, {{0}}, {{out}});", ("activations.h",), size
    )


def _pad(op):
    dims, n = op.shape(0), op.number
    padding = np.ravel(constant(op.model, op.tensor(1)))
    value = op.zero(-1)
    if op.tensor(2) is not None:
        value = int(np.ravel(constant(op.model, op.tensor(2)))[0])
    tables = (
        f"constexpr PadParams kParams{n} = {{{len(dims)}, {{{numbers(dims)}}}, "
        f"{{{numbers(padding[::2])}}}, {{{numbers(padding[1::2])}}}, {value}}};\n"
    )
    work = int(np.prod(op.shape(-1)))
    return Call(tables, f"PadInt8(kParams{n}, {{0}}, {{out}});", ("data_movement.h",), work)


def _concatenation(op):
    out = op.shape(-1)
    axis = op.options.axis % len(out)
    outer, text, place = int(np.prod(out[:axis])), [], 0
    run_out = int(np.prod(out)) // outer
    for i in range(len(op.inputs)):
        run = int(np.prod(op.shape(i))) // outer
        text.append(f"ConcatenateInt8({outer}, {run}, {run_out}, {{{i}}}, {{out}} + {place});")
        place += run
    return Call("", "\n  ".join(text), ("data_movement.h",), int(np.prod(out)))


EMITTERS = {
    "ADD": _binary,
    "MUL": _binary,
    "SOFTMAX": _softmax,
    "MEAN": _mean,
    "RELU": _pointwise,
    "RELU6": _pointwise,
    "RELU_N1_TO_1": _pointwise,
    "LEAKY_RELU": _pointwise,
    "LOGISTIC": _pointwise,
    "QUANTIZE": _pointwise,
    "PAD": _pad,
    "PADV2": _pad,
    "CONCATENATION": _concatenation,
}
