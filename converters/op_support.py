"""Which operators the product runs, and refusals that name every obstacle at once."""

from ai_edge_litert import schema_py_generated as schema

from converters.errors import ConversionError, UnsupportedModelError
from converters.flatbuffer import op_name, tensor_name, type_name

# The int8 operators of micro_ops/core.
SUPPORTED_OPS = frozenset(
    {
        "ADD",
        "AVERAGE_POOL_2D",
        "CONCATENATION",
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "FULLY_CONNECTED",
        "LEAKY_RELU",
        "LOGISTIC",
        "MAX_POOL_2D",
        "MEAN",
        "MUL",
        "PAD",
        "PADV2",
        "QUANTIZE",
        "RELU",
        "RELU6",
        "RELU_N1_TO_1",
        "RESHAPE",
        "SOFTMAX",
    }
)

# Operators whose input and output hold the same codes: one scale and zero point for both.
SAME_SCALE_OPS = frozenset(
    {
        "AVERAGE_POOL_2D",
        "CONCATENATION",
        "MAX_POOL_2D",
        "PAD",
        "PADV2",
        "RELU6",
        "RELU_N1_TO_1",
        "RESHAPE",
    }
)

# Operators with a constant filter at input 1 and an optional bias at input 2.
WEIGHT_OPS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"})

_NOT_IN_FLOAT = {"QUANTIZE"}

_ACTIVATIONS = {
    schema.ActivationFunctionType.NONE,
    schema.ActivationFunctionType.RELU,
    schema.ActivationFunctionType.RELU_N1_TO_1,
    schema.ActivationFunctionType.RELU6,
}


def fused_activation(op):
    """The `ActivationFunctionType` fused into an operator, NONE for one that cannot fuse."""
    return getattr(op.builtinOptions, "fusedActivationFunction", schema.ActivationFunctionType.NONE)


def check_float_graph(graph):
    """Refuse a `FloatGraph` that int8 cannot express, listing every reason with its layer.

    Raises:
      ConversionError: an operator, type or shape outside the supported set.
    """
    reasons = []
    for number, subgraph in enumerate(graph.model.subgraphs):
        for op in subgraph.operators or []:
            reason = _op_reason(graph.model, subgraph, op)
            if reason and number == 0:
                reasons.append(f"{_where(graph, op)}: {reason}")
            elif reason:
                reasons.append(f"inside a loop or branch: {reason}")
    reasons = list(dict.fromkeys(reasons))
    if reasons:
        supported = ", ".join(sorted(SUPPORTED_OPS - _NOT_IN_FLOAT))
        raise ConversionError(
            f"Expected only operators that train in int8, got {len(reasons)} that do not:\n  "
            + "\n  ".join(reasons)
            + f"\nSupported: {supported}. Replace these layers, or cut the model before them"
        )
    subgraph = graph.model.subgraphs[0]
    for index in subgraph.inputs:
        tensor = subgraph.tensors[index]
        if tensor.type != schema.TensorType.FLOAT32:
            raise ConversionError(
                f"Expected float32 inputs, got {type_name(tensor.type)} for input "
                f"{tensor_name(tensor)!r}: cast inside your own code, or start the model after it"
            )


def check_int8_model(model):
    """Refuse a flatbuffer that holds anything but int8 activations and weights and int32 biases.

    Raises:
      UnsupportedModelError: naming the first tensor of another type, or several sub-graphs.
    """
    if len(model.subgraphs) != 1:
        raise UnsupportedModelError(
            f"Expected one sub-graph, got {len(model.subgraphs)}: models with branches or loops "
            "cannot be trained"
        )
    for tensor in model.subgraphs[0].tensors:
        if tensor.type not in (schema.TensorType.INT8, schema.TensorType.INT32):
            kind = type_name(tensor.type)
            what = "int16 activations" if tensor.type == schema.TensorType.INT16 else kind
            raise UnsupportedModelError(
                f"{what} unsupported: tensor {tensor_name(tensor)!r} is {kind}, expected INT8 (or "
                "INT32 for biases and shapes): convert the Keras model with `tflm-train convert`"
            )


def _where(graph, op):
    layers = [name for i in op.outputs for name in graph.layers.get(i, [])]
    if not layers:
        # Arithmetic written between layers (x - 1) belongs to none: say what it follows.
        before = [name for i in op.inputs if i >= 0 for name in graph.layers.get(int(i), [])]
        if before:
            return f"after layer {before[0]!r}"
        outputs = [tensor_name(graph.model.subgraphs[0].tensors[i]) for i in op.outputs]
        return f"tensor {outputs[0]!r}" if outputs else "an operator without output"
    layer = layers[0]
    kind = graph.classes.get(layer)
    return f"layer {layer!r}" + (f" ({kind})" if kind else "")


def _op_reason(model, subgraph, op):
    name = op_name(model, op)
    if name not in SUPPORTED_OPS - _NOT_IN_FLOAT:
        return name
    activation = fused_activation(op)
    if activation not in _ACTIVATIONS:
        return f"{name} with fused activation {activation}"
    if name in WEIGHT_OPS:
        filter_index = op.inputs[1]
        data = model.buffers[subgraph.tensors[filter_index].buffer].data
        if data is None or len(data) == 0:
            return f"{name} whose weights are not constant"
    for index in op.outputs:
        tensor = subgraph.tensors[index]
        if tensor.type != schema.TensorType.FLOAT32:
            return f"{name} on {type_name(tensor.type)}"
        signature = [] if tensor.shapeSignature is None else list(tensor.shapeSignature)
        if any(d < 0 for d in signature):
            return f"{name} with an unknown dimension ({[int(d) for d in signature]})"
    return None
