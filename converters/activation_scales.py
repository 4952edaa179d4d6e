"""Scales of the activations: one per tensor, one for all tensors that hold the same codes."""

import logging

from converters.errors import ConversionError
from converters.flatbuffer import constant, op_name, tensor_name
from converters.op_support import SAME_SCALE_OPS
from converters.scales import PROBABILITY, Quantization, activation_quantization

_LOGGER = logging.getLogger(__name__)

# Below this a range says that the tensor never moved; above it may be a quantity in small units.
_NO_RANGE = 1e-8
# The softmax kernels abort when scale * 2^26 does not exceed 1.
_LEAST_SOFTMAX_SCALE = 2.0**-25


def logits_tensor(model):
    """Index of the tensor the loss reads: what a closing SOFTMAX or LOGISTIC reads, else output 0.

    int8 probabilities have 256 levels and hide a third to a half of single-code changes.
    """
    subgraph = model.subgraphs[0]
    index = int(subgraph.outputs[0])
    for _ in subgraph.operators:
        producer = next((op for op in subgraph.operators if index in op.outputs), None)
        if producer is None:
            break
        name = op_name(model, producer)
        if name in ("SOFTMAX", "LOGISTIC"):
            return int(producer.inputs[0])
        if name != "RESHAPE":
            break
        index = int(producer.inputs[0])
    return int(subgraph.outputs[0])


def _groups(model):
    """{activation: representative}: tensors that must share a scale have one representative."""
    subgraph = model.subgraphs[0]
    parent = {}

    def find(i):
        parent.setdefault(i, i)
        while parent[i] != i:
            i = parent[i]
        return i

    for op in subgraph.operators:
        inputs = [int(i) for i in op.inputs if i >= 0]
        name = op_name(model, op)
        moving = [i for i in inputs if constant(model, subgraph.tensors[i]) is None]
        for i in moving + [int(i) for i in op.outputs]:
            find(i)
        if name in SAME_SCALE_OPS:
            joined = moving if name == "CONCATENATION" else moving[:1]
            for i in joined:
                parent[find(i)] = find(int(op.outputs[0]))
    return {i: find(i) for i in parent}


def activation_quantizations(model, ranges, *, power_of_two=False, logit_headroom=1.0):
    """{tensor index: `Quantization`} of every activation of a float model.

    Args:
      model: float `schema.ModelT`.
      ranges: {tensor index: (min, max)}.
      power_of_two: scales 2^e with zero point 0.
      logit_headroom: range of the logits over the calibrated one.

    Raises:
      ConversionError: a probability joined with values outside [0, 1].
    """
    subgraph = model.subgraphs[0]
    groups = _groups(model)
    fixed, softmax_inputs = {}, set()
    for op in subgraph.operators:
        name = op_name(model, op)
        if name in ("SOFTMAX", "LOGISTIC"):
            fixed[groups[int(op.outputs[0])]] = name
        if name == "SOFTMAX":
            softmax_inputs.add(groups[int(op.inputs[0])])
    spans, members = {}, {}
    for index, root in groups.items():
        low, high = ranges[index]
        old = spans.get(root, (low, high))
        spans[root] = (min(low, old[0]), max(high, old[1]))
        members.setdefault(root, []).append(index)
    logits = groups[logits_tensor(model)]
    result, still = {}, []
    for root, (low, high) in spans.items():
        names = ", ".join(tensor_name(subgraph.tensors[i]) or str(i) for i in members[root])
        if root in fixed:
            if low < -1e-3 or high > 1 + 1e-3:
                raise ConversionError(
                    f"Expected {fixed[root]} to be joined only with values in [0, 1], got "
                    f"[{low:g}, {high:g}] in {names}: int8 fixes its scale at 1/256; give the "
                    "joined tensors outputs of their own"
                )
            result[root] = PROBABILITY
            continue
        if max(high, 0) - min(low, 0) < _NO_RANGE:
            still.append(names)
            low, high = -1.0, 1.0
        headroom = logit_headroom if root == logits else 1.0
        quantization = activation_quantization(
            low, high, power_of_two=power_of_two, headroom=headroom
        )
        if root in softmax_inputs and quantization.scale < _LEAST_SOFTMAX_SCALE:
            _LOGGER.warning(
                "tensor %s moves within %g only: its scale is raised to 2^-25, the least the "
                "softmax kernels take",
                names,
                high - low,
            )
            quantization = Quantization((_LEAST_SOFTMAX_SCALE,), quantization.zero_point)
        result[root] = quantization
    if still:
        _LOGGER.warning(
            "tensor %s stayed at 0 over the whole calibration: its range is taken as [-1, 1]",
            ", ".join(still),
        )
    return {index: result[root] for index, root in groups.items()}
