"""From an operator of an int8 flatbuffer to a call of a kernel in micro_ops/core.

The integers a kernel takes are computed here as the native engine computes them, float for float
and double for double; tests hold the two against each other.
"""

import dataclasses
import math

import numpy as np

from converters.errors import UnsupportedModelError
from converters.flatbuffer import constant, op_name, schema, tensor_name

_Activation = schema.ActivationFunctionType


@dataclasses.dataclass
class Call:
    """Text of one kernel call.

    Attributes:
      tables: definitions it needs, at namespace scope.
      text: the call, with `{0}`, `{1}` … for its inputs and `{out}` for its output.
      includes: headers below micro_ops/core.
      work: multiplications, for time estimates.
      outputs: values written, for the same.
      scratch: bytes of `{scratch}` in the text.
    """

    tables: str
    text: str
    includes: tuple
    work: int = 0
    outputs: int = 0
    scratch: int = 0


class Op:
    """An operator with its tensors at hand."""

    def __init__(self, model, number):
        graph = model.subgraphs[0]
        self.model, self.number, self.op = model, number, graph.operators[number]
        self.name, self.options = op_name(model, self.op), self.op.builtinOptions
        self.inputs = [int(i) for i in self.op.inputs]
        self.output = int(self.op.outputs[0])
        self.tensors = graph.tensors

    def tensor(self, i):
        """Input `i`, the output for i = -1, None when absent."""
        index = self.output if i < 0 else self.inputs[i] if i < len(self.inputs) else -1
        return self.tensors[index] if index >= 0 else None

    def shape(self, i):
        """Dimensions of `tensor(i)`."""
        return [int(d) for d in self.tensor(i).shape]

    def scale(self, i):
        """Scales as float32."""
        return np.asarray(self.tensor(i).quantization.scale, np.float32)

    def zero(self, i):
        """Zero point."""
        return int(self.tensor(i).quantization.zeroPoint[0])

    def require(self, ok, expected):
        """Refuse with the operator's name unless `ok`."""
        if not ok:
            name = tensor_name(self.tensor(-1))
            raise UnsupportedModelError(
                f"operator {self.number} {self.name} ({name!r}): Expected {expected}"
            )


def multiplier(value):
    """(multiplier, shift) with value = multiplier * 2^(shift - 31)."""
    if value == 0.0:
        return 0, 0
    fraction, shift = math.frexp(float(value))
    fixed = math.floor(fraction * (1 << 31) + 0.5)
    if fixed == 1 << 31:
        fixed, shift = fixed // 2, shift + 1
    return (0, 0) if shift < -31 else (fixed, shift)


def _round(value):
    return math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


def _code(op, i, value):
    return op.zero(i) + _round(float(np.float32(value) / op.scale(i)[0]))


def activation_range(op):
    """Output codes that the fused activation allows."""
    fused = getattr(op.options, "fusedActivationFunction", _Activation.NONE)
    limits = {
        _Activation.NONE: (None, None),
        _Activation.RELU: (0.0, None),
        _Activation.RELU6: (0.0, 6.0),
        _Activation.RELU_N1_TO_1: (-1.0, 1.0),
    }
    op.require(fused in limits, "fused activation NONE, RELU, RELU6 or RELU_N1_TO_1")
    low, high = limits[fused]
    return (
        -128 if low is None else max(-128, _code(op, -1, low)),
        127 if high is None else min(127, _code(op, -1, high)),
    )


def padding(op, size, kernel, stride, dilation=1):
    """(output size, padding before) along one axis."""
    effective = (kernel - 1) * dilation + 1
    same = op.options.padding == schema.Padding.SAME
    out = -(-size // stride) if same else (size + stride - effective) // stride
    return out, max((out - 1) * stride + effective - size, 0) // 2


def _numbers(values):
    return ", ".join(str(int(v)) for v in values)


def _scales(op, pairs):
    n = op.number
    first, second = zip(*pairs, strict=True)
    return (
        f"constexpr int32_t kMultiplier{n}[] = {{{_numbers(first)}}};\n"
        f"constexpr int32_t kShift{n}[] = {{{_numbers(second)}}};\n"
    ), int(len(pairs) > 1)


def _bias(op):
    return "{2}" if op.tensor(2) is not None else "nullptr"


def _lanes_possible(op):
    """Whether Cortex-M0+'s convolution by lanes takes the operator."""
    filters, o = constant(op.model, op.tensor(1)), op.options
    plain = o.dilationHFactor == o.dilationWFactor == 1 and op.shape(1)[3] == op.shape(0)[3]
    return plain and filters is not None and int(filters.min()) > -128


def _convolution(op, kernels):

    depthwise = op.name == "DEPTHWISE_CONV_2D"
    (batch, in_h, in_w, in_c), (_, kernel_h, kernel_w, filter_c) = op.shape(0), op.shape(1)
    op.require(batch == 1, "batch 1")
    o = op.options
    out_h, top = padding(op, in_h, kernel_h, o.strideH, o.dilationHFactor)
    out_w, left = padding(op, in_w, kernel_w, o.strideW, o.dilationWFactor)
    out_c = op.shape(-1)[3]
    pairs = [multiplier(float(op.scale(0)[0]) * float(s) / float(op.scale(-1)[0]))
             for s in op.scale(1)]  # fmt: skip
    tables, step = _scales(op, pairs)
    sizes = [in_h, in_w, in_c, kernel_h, kernel_w, filter_c, out_h, out_w, out_c, o.strideH,
             o.strideW, o.dilationHFactor, o.dilationWFactor, top, left, -op.zero(0), op.zero(-1),
             *activation_range(op)]  # fmt: skip
    n = op.number
    tables += (
        f"constexpr ConvParams kParams{n} = {{{_numbers(sizes)}, kMultiplier{n}, kShift{n}, "
        f"{step}}};\n"
    )
    function = "DepthwiseConv2DInt8" if depthwise else "Conv2DInt8"
    work = out_h * out_w * out_c * kernel_h * kernel_w * (1 if depthwise else filter_c)
    if kernels == "armv6m" and not depthwise and _lanes_possible(op):
        row, lanes = kernel_h * kernel_w * in_c, -(-out_c // 4) * 4
        scratch = 2 * row * lanes + 8 * (2 * row + 4) + 4 * lanes
        tables += f'static_assert(LaneConvScratch(kParams{n}) <= {scratch}, "the plan");\n'
        text = f"LaneConv2DInt8(kParams{n}, {{0}}, {{1}}, {_bias(op)}, {{scratch}}, {{out}});"
        return Call(tables, text, ("../armv6m/conv_int8.h",), work, scratch=scratch)
    return Call(
        tables, f"{function}(kParams{n}, {{0}}, {{1}}, {_bias(op)}, {{out}});", ("conv.h",), work
    )


def _dense(op):
    outputs, depth = op.shape(1)
    rows = int(np.prod(op.shape(0))) // depth
    scale = op.scale(1)
    values = [float(op.scale(0)[0]) * float(s) / float(op.scale(-1)[0]) for s in scale]
    tables, step = _scales(op, [multiplier(v) for v in values])
    n = op.number
    sizes = [depth, outputs, -op.zero(0), op.zero(-1), *activation_range(op)]
    tables += (
        f"constexpr FullyConnectedParams kParams{n} = {{{_numbers(sizes)}, kMultiplier{n}, "
        f"kShift{n}, {step}}};\n"
    )
    text = f"FullyConnectedInt8(kParams{n}, {rows}, {{0}}, {{1}}, {_bias(op)}, {{out}});"
    return Call(tables, text, ("fully_connected.h",), rows * outputs * depth)


def _pool(op):
    batch, in_h, in_w, channels = op.shape(0)
    op.require(batch == 1, "batch 1")
    o = op.options
    out_h, top = padding(op, in_h, o.filterHeight, o.strideH)
    out_w, left = padding(op, in_w, o.filterWidth, o.strideW)
    sizes = [in_h, in_w, channels, out_h, out_w, o.filterHeight, o.filterWidth, o.strideH,
             o.strideW, top, left, *activation_range(op)]  # fmt: skip
    n = op.number
    function = "AveragePool2DInt8" if op.name == "AVERAGE_POOL_2D" else "MaxPool2DInt8"
    tables = f"constexpr PoolParams kParams{n} = {{{_numbers(sizes)}}};\n"
    work = out_h * out_w * channels * o.filterHeight * o.filterWidth
    return Call(tables, f"{function}(kParams{n}, {{0}}, {{out}});", ("pooling.h",), work)


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
    return f"{{{rank}, {{{_numbers(sizes)}}}, {{{_numbers(steps[0])}}}, {{{_numbers(steps[1])}}}}}"


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
        numbers = [v for pair in pairs for v in pair]
        kind, function = "AddParams", "AddInt8"
    else:
        numbers = list(multiplier(a * b / out))
        kind, function = "MulParams", "MulInt8"
    sizes = [*offsets, *numbers, *activation_range(op)]
    tables = (
        f"constexpr {kind} kParams{n} = {{{_numbers(sizes)}}};\n"
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
    return Call(tables, f"SoftmaxInt8(kParams{n}, {rows}, {{0}}, {{out}});", ("softmax.h",))


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
        return f"{{{_numbers(sizes)}}}, {{{_numbers(strides)}}}"

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
        codes = [min(127, max(-128, _code(op, 0, v))) for v in (low, high)]
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
    tables = f"constexpr {kind} kParams{n} = {{{_numbers(values)}}};\n"
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
        f"constexpr PadParams kParams{n} = {{{len(dims)}, {{{_numbers(dims)}}}, "
        f"{{{_numbers(padding[::2])}}}, {{{_numbers(padding[1::2])}}}, {value}}};\n"
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


# Operators whose output holds the input's bytes.
ALIASES = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})

_EMITTERS = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _convolution,
    "FULLY_CONNECTED": _dense,
    "MAX_POOL_2D": _pool,
    "AVERAGE_POOL_2D": _pool,
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


def kernel_call(model, number, kernels="portable"):
    """The `Call` of operator `number`, None for one that only renames its input.

    Args:
      model: a `schema.ModelT`.
      number: of the operator in sub-graph 0.
      kernels: `armv6m` takes that folder's convolution where it can.

    Raises:
      UnsupportedModelError: an operator, or a form of it, without a kernel.
    """
    op = Op(model, number)
    if op.name in ALIASES:
        return None
    if op.name not in _EMITTERS:
        raise UnsupportedModelError(
            f"operator {number} {op.name}: Expected one of {', '.join(sorted(_EMITTERS))}"
        )
    emit = _EMITTERS[op.name]
    call = emit(op, kernels) if emit is _convolution else emit(op)
    call.outputs = int(np.prod(op.shape(-1)))
    return call
