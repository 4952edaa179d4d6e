"""What emitters of kernel calls share: an operator at hand, its call, its scales and ranges."""

import dataclasses
import math

import numpy as np

from converters.errors import UnsupportedModelError
from converters.flatbuffer import op_name, schema, tensor_name

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


def round_half_away(value):
    """Nearest integer, ties away from zero."""
    return math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


def code_of(op, i, value):
    """Code of a real value in tensor `i`, as TFLM rounds it."""
    return op.zero(i) + round_half_away(float(np.float32(value) / op.scale(i)[0]))


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
        -128 if low is None else max(-128, code_of(op, -1, low)),
        127 if high is None else min(127, code_of(op, -1, high)),
    )


def padding(op, size, kernel, stride, dilation=1):
    """(output size, padding before) along one axis."""
    effective = (kernel - 1) * dilation + 1
    same = op.options.padding == schema.Padding.SAME
    out = -(-size // stride) if same else (size + stride - effective) // stride
    return out, max((out - 1) * stride + effective - size, 0) // 2


def numbers(values):
    """Integers separated by commas."""
    return ", ".join(str(int(v)) for v in values)
