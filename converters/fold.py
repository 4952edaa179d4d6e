"""Fold what TensorFlow left: a constant MUL, ADD or SUB behind a linear layer joins its weights.

TensorFlow folds batch normalisation into convolutions, but leaves, depending on its version, the
shift of one that follows a dense layer as a separate ADD. Such an operator costs an int8 rounding,
so it is folded here; what cannot be folded is reported by `unfolded_layers`.
"""

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converters.flatbuffer import constant, op_name, tensor_name
from converters.op_support import WEIGHT_OPS, fused_activation

_NONE = schema.ActivationFunctionType.NONE


def fold_constants(graph):
    """Fold in place; `graph` is a `FloatGraph` whose model is changed.

    SUB of a constant becomes ADD of its negative where it cannot be folded.
    """
    model, subgraph = graph.model, graph.model.subgraphs[0]
    changed = True
    while changed:
        changed = any(_fold_one(graph, model, subgraph, op) for op in list(subgraph.operators))
    for op in subgraph.operators:
        if op_name(model, op) == "SUB":
            values = constant(model, subgraph.tensors[op.inputs[1]])
            if values is not None:
                _negate(model, subgraph, op, values)


def unfolded_layers(graph):
    """Names of the batch-normalisation layers left as operators of their own."""
    model, subgraph = graph.model, graph.model.subgraphs[0]
    names = []
    for op in subgraph.operators:
        if op_name(model, op) not in ("MUL", "ADD"):
            continue
        if all(constant(model, subgraph.tensors[i]) is None for i in op.inputs):
            continue
        for layer in graph.layers.get(op.outputs[0], []):
            if graph.classes.get(layer) == "BatchNormalization" and layer not in names:
                names.append(layer)
    return names


def _fold_one(graph, model, subgraph, op):
    kind = op_name(model, op)
    if kind not in ("MUL", "ADD", "SUB"):
        return False
    split = _split(model, subgraph, op, kind)
    if split is None:
        return False
    source, values = split
    producer = next((p for p in subgraph.operators if source in p.outputs), None)
    if (
        producer is None
        or op_name(model, producer) not in WEIGHT_OPS
        or fused_activation(producer) != _NONE
        or sum(source in o.inputs for o in subgraph.operators) != 1
        or source in subgraph.outputs
    ):
        return False
    channels = int(subgraph.tensors[source].shape[-1])
    try:
        values = np.broadcast_to(values.reshape(-1), (channels,)).astype(np.float64)
    except ValueError:
        return False
    if list(subgraph.tensors[source].shape) != list(subgraph.tensors[op.outputs[0]].shape):
        return False
    bias = _bias(model, subgraph, producer, channels)
    if kind == "MUL":
        _scale_weights(model, subgraph, producer, values)
        bias = bias * values
    else:
        bias = bias + (values if kind == "ADD" else -values)
    _set_bias(model, subgraph, producer, bias)
    producer.builtinOptions.fusedActivationFunction = fused_activation(op)
    output = op.outputs[0]
    merged = graph.layers.get(output, []) + graph.layers.get(source, [])
    graph.layers[output] = list(dict.fromkeys(merged))
    producer.outputs = [output]
    # A loop, for `list.remove` would compare operators by value.
    subgraph.operators = [o for o in subgraph.operators if o is not op]
    return True


def _split(model, subgraph, op, kind):
    """(index of the activation, constant of one value per channel) or None."""
    first, second = (constant(model, subgraph.tensors[i]) for i in op.inputs)
    if (first is None) == (second is None) or (kind == "SUB" and second is None):
        return None
    values = second if first is None else first
    if values.size > 1 and values.shape[-1] != values.size:
        return None
    return (op.inputs[0] if first is None else op.inputs[1]), values


def _bias(model, subgraph, op, channels):
    if len(op.inputs) > 2 and op.inputs[2] >= 0:
        return constant(model, subgraph.tensors[op.inputs[2]]).astype(np.float64)
    return np.zeros(channels)


def _scale_weights(model, subgraph, op, values):
    tensor = subgraph.tensors[op.inputs[1]]
    weights = constant(model, tensor).astype(np.float64)
    axis = 3 if op_name(model, op) == "DEPTHWISE_CONV_2D" else 0
    shape = [1] * weights.ndim
    shape[axis] = -1
    new = new_constant(model, subgraph, tensor_name(tensor), weights * values.reshape(shape))
    op.inputs = [op.inputs[0], new, *op.inputs[2:]]


def _set_bias(model, subgraph, op, bias):
    new = new_constant(model, subgraph, "folded_bias", bias)
    op.inputs = [op.inputs[0], op.inputs[1], new]


def _negate(model, subgraph, op, values):
    op.inputs = [op.inputs[0], new_constant(model, subgraph, "negated", -values)]
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.ADD
    code.version = 1
    model.operatorCodes.append(code)
    options = schema.AddOptionsT()
    options.fusedActivationFunction = fused_activation(op)
    op.opcodeIndex = len(model.operatorCodes) - 1
    op.builtinOptionsType = schema.BuiltinOptions.AddOptions
    op.builtinOptions = options


def new_constant(model, subgraph, name, values, tensor_type=schema.TensorType.FLOAT32):
    """Append a constant tensor with its own buffer; returns its index.

    Another operator may share the old tensor, so a change never goes into it.
    """
    dtype = {schema.TensorType.FLOAT32: np.float32, schema.TensorType.INT32: np.int32}[tensor_type]
    values = np.asarray(values).astype(dtype)
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(values.tobytes(), np.uint8)
    model.buffers.append(buffer)
    tensor = schema.TensorT()
    tensor.name = name.encode()
    tensor.shape = list(values.shape)
    tensor.type = tensor_type
    tensor.buffer = len(model.buffers) - 1
    tensor.quantization = schema.QuantizationParametersT()
    subgraph.tensors.append(tensor)
    return len(subgraph.tensors) - 1
