"""Rewrite a float graph as int8: codes from the float weights, scales that never change again.

The scales follow the TFLite quantisation specification and equal those of TensorFlow's own
quantiser where no option asks for others; tests hold the two against each other. Doing it here
makes headroom, power-of-two scales and per-tensor dense weights exact instead of re-rounded.
"""

import dataclasses
import logging
import math

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converters.activation_scales import activation_quantizations
from converters.errors import ConversionError
from converters.flatbuffer import constant, op_name, read_model, tensor_name, write_model
from converters.fold import new_constant
from converters.op_support import SAME_SCALE_OPS, WEIGHT_OPS
from converters.scales import (
    TRAINABLE_LIMIT,
    WEIGHT_LIMIT,
    Quantization,
    activation_quantization,
    quantize_values,
    quantize_weights,
    round_half_away,
    weight_scales,
)

_LOGGER = logging.getLogger(__name__)

# Versions in which the operators took int8.
_INT8_VERSION = {
    "ADD": 2,
    "AVERAGE_POOL_2D": 2,
    "CONCATENATION": 2,
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 4,
    "LEAKY_RELU": 2,
    "LOGISTIC": 2,
    "MAX_POOL_2D": 2,
    "MEAN": 2,
    "MUL": 2,
    "PAD": 2,
    "PADV2": 2,
    "RELU": 2,
    "RELU6": 2,
    "SOFTMAX": 2,
}
_LARGEST_BIAS = 2**30


@dataclasses.dataclass(frozen=True)
class QuantizeOptions:
    """What shapes the scales; see `converters.convert`."""

    per_channel_dense: bool = False
    power_of_two: bool = False
    trainable_weights: frozenset = frozenset()
    trainable_biases: frozenset = frozenset()
    weight_headroom: float = 1.0
    logit_headroom: float = 1.0


def quantize_graph(graph, ranges, options):
    """An int8 `schema.ModelT` with the operators and tensor indices of `graph`.

    Args:
      graph: folded `FloatGraph`; left untouched.
      ranges: `converters.ranges.observe_ranges` of it.
      options: `QuantizeOptions`; operator numbers in `trainable_*`.

    Raises:
      ConversionError: scales that cannot be reconciled.
    """
    model = read_model(write_model(graph.model))
    subgraph = model.subgraphs[0]
    activations = activation_quantizations(
        model,
        ranges,
        power_of_two=options.power_of_two,
        logit_headroom=options.logit_headroom,
    )
    for index, quantization in activations.items():
        _retype(subgraph.tensors[index], quantization)
    weights_done = {}
    # A kernel shared by several operators must give room when any of them trains it.
    trained = {int(subgraph.operators[n].inputs[1]) for n in options.trainable_weights}
    for number, op in enumerate(subgraph.operators):
        name = op_name(model, op)
        if name in WEIGHT_OPS:
            _quantize_linear(model, subgraph, number, activations, options, trained, weights_done)
        else:
            _quantize_constants(model, subgraph, op, name, activations, options)
    _set_versions(model, options)
    return model


def _retype(tensor, quantization, tensor_type=schema.TensorType.INT8):
    tensor.type = tensor_type
    parameters = schema.QuantizationParametersT()
    parameters.scale = np.asarray(quantization.scales, np.float32)
    parameters.zeroPoint = np.full(len(quantization.scales), quantization.zero_point, np.int64)
    parameters.quantizedDimension = quantization.axis
    tensor.quantization = parameters


def _own_data(model, tensor, values):
    """Give a tensor a buffer of its own: the converter lets equal constants share one."""
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
    model.buffers.append(buffer)
    tensor.buffer = len(model.buffers) - 1


def _quantize_linear(model, subgraph, number, activations, options, trained, done):
    op = subgraph.operators[number]
    name = op_name(model, op)
    index = int(op.inputs[1])
    tensor = subgraph.tensors[index]
    per_channel = not options.power_of_two and (
        name != "FULLY_CONNECTED" or options.per_channel_dense
    )
    axis = (3 if name == "DEPTHWISE_CONV_2D" else 0) if per_channel else None
    channels = int(tensor.shape[3 if name == "DEPTHWISE_CONV_2D" else 0])
    has_bias = len(op.inputs) > 2 and op.inputs[2] >= 0
    bias_name = (tensor_name(tensor) or f"op{number}/kernel").replace("kernel", "bias")
    if has_bias:
        bias = constant(model, subgraph.tensors[op.inputs[2]]).astype(np.float64)
        bias_name = tensor_name(subgraph.tensors[op.inputs[2]]) or bias_name
    else:
        bias = np.zeros(channels)
    input_scale = activations[int(op.inputs[0])].scale
    if index not in done:
        weights = constant(model, tensor).astype(np.float64)
        trains = index in trained
        limit = TRAINABLE_LIMIT if trains else WEIGHT_LIMIT
        scales = weight_scales(
            weights,
            axis,
            limit=limit,
            headroom=options.weight_headroom if trains else 1.0,
            power_of_two=options.power_of_two,
            empty=_empty_peak(tensor, weights),
        )
        scales = _fit_bias(scales, input_scale, bias, options.power_of_two)
        _own_data(model, tensor, quantize_weights(weights, scales, axis, limit))
        _retype(tensor, Quantization(tuple(scales), 0, axis or 0))
        done[index] = scales
    scales = done[index]
    if not has_bias and number not in options.trainable_biases:
        return
    bias_scales = (np.float32(input_scale) * scales.astype(np.float32)).astype(np.float64)
    codes = round_half_away(bias / bias_scales)
    if np.abs(codes).max(initial=0) >= 2**31:
        raise ConversionError(
            f"Expected the bias {bias_name!r} to fit 32 bits, got {np.abs(codes).max():g} codes: a "
            "shared kernel reads inputs of very different ranges; give each use its own layer"
        )
    new = new_constant(model, subgraph, bias_name, codes, schema.TensorType.INT32)
    _retype(subgraph.tensors[new], Quantization(tuple(bias_scales), 0, 0), schema.TensorType.INT32)
    op.inputs = [op.inputs[0], op.inputs[1], new]


def _empty_peak(tensor, weights):
    if np.any(weights):
        return 1.0
    # A zero head is a common start for fine-tuning: its scale must leave room to learn.
    fan_in, fan_out = weights.size // max(weights.shape[0], 1), weights.shape[0]
    peak = math.sqrt(6 / max(fan_in + fan_out, 1))
    _LOGGER.warning(
        "weights %s are all 0: their range is unknown and taken as [-%.3g, %.3g] (Glorot)",
        tensor_name(tensor),
        peak,
        peak,
    )
    return peak


def _fit_bias(scales, input_scale, bias, power_of_two):
    """Raise weight scales whose bias would leave 32 bits, as TFLite's own quantiser does."""
    peak = np.abs(bias) if len(scales) > 1 else np.abs(bias).max(initial=0.0).reshape(1)
    least = peak / (input_scale * _LARGEST_BIAS)
    raised = np.maximum(scales, least)
    if power_of_two:
        return np.array([2.0 ** math.ceil(math.log2(s) - 1e-9) for s in raised])
    return raised.astype(np.float32).astype(np.float64)


def _quantize_constants(model, subgraph, op, name, activations, options):
    """int8 constants of ADD and MUL, and the values joined or padded in at the output's scale."""
    for position, index in enumerate(op.inputs):
        tensor = subgraph.tensors[index] if index >= 0 else None
        if tensor is None or tensor.type != schema.TensorType.FLOAT32:
            continue
        values = constant(model, tensor)
        if values is None:
            continue
        if name in SAME_SCALE_OPS:
            quantization = activations[int(op.outputs[0])]
        else:
            low, high = float(values.min(initial=0)), float(values.max(initial=0))
            if low == high:
                low, high = -1.0, 1.0
            quantization = activation_quantization(low, high, power_of_two=options.power_of_two)
        new = new_constant(model, subgraph, tensor_name(tensor), values)
        _own_data(model, subgraph.tensors[new], quantize_values(values, quantization))
        _retype(subgraph.tensors[new], quantization)
        inputs = list(op.inputs)
        inputs[position] = new
        op.inputs = inputs


def _set_versions(model, options):
    for code in model.operatorCodes:
        builtin = max(code.builtinCode, code.deprecatedBuiltinCode)
        name = next(
            k for k, v in vars(schema.BuiltinOperator).items() if v == builtin and k[0] != "_"
        )
        needed = _INT8_VERSION.get(name, 1)
        if name == "FULLY_CONNECTED" and options.per_channel_dense:
            needed = 12
        code.version = max(code.version, needed)
