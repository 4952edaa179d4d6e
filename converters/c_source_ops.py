"""From an operator of an int8 flatbuffer to a call of a kernel in micro_ops/core.

The integers a kernel takes are computed here as the native engine computes them, float for float
and double for double; tests hold the two against each other.
"""

import numpy as np

from converters import c_source_pointwise
from converters.c_source_op import Call, Op, activation_range, multiplier, numbers, padding
from converters.errors import UnsupportedModelError
from converters.flatbuffer import constant


def _scales(op, pairs):
    n = op.number
    first, second = zip(*pairs, strict=True)
    return (
        f"constexpr int32_t kMultiplier{n}[] = {{{numbers(first)}}};\n"
        f"constexpr int32_t kShift{n}[] = {{{numbers(second)}}};\n"
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
        f"constexpr ConvParams kParams{n} = {{{numbers(sizes)}, kMultiplier{n}, kShift{n}, "
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
        f"constexpr FullyConnectedParams kParams{n} = {{{numbers(sizes)}, kMultiplier{n}, "
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
    tables = f"constexpr PoolParams kParams{n} = {{{numbers(sizes)}}};\n"
    work = out_h * out_w * channels * o.filterHeight * o.filterWidth
    return Call(tables, f"{function}(kParams{n}, {{0}}, {{out}});", ("pooling.h",), work)


# Operators whose output holds the input's bytes.
ALIASES = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})

_EMITTERS = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _convolution,
    "FULLY_CONNECTED": _dense,
    "MAX_POOL_2D": _pool,
    "AVERAGE_POOL_2D": _pool,
    **c_source_pointwise.EMITTERS,
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
