"""Which tensors of a model training may change, where its logits are, and that it is int8."""

from converters.errors import UnsupportedModelError
from converters.flatbuffer import constant, op_name, schema, tensor_name, type_name
from converters.training_info import TrainableTensor

_WEIGHTED = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")


def default_trainable(model):
    """The last layer's weights, for a model that carries no training entry; () if it has none."""
    graph = model.subgraphs[0]
    for number, op in reversed(list(enumerate(graph.operators))):
        if op_name(model, op) not in _WEIGHTED:
            continue
        index = int(op.inputs[1])
        tensor = graph.tensors[index]
        if constant(model, tensor) is not None and tensor.type == schema.TensorType.INT8:
            name = tensor_name(tensor)
            return (TrainableTensor(tensor=index, op=number, name=name, layer=name),)
    return ()


def logits_index(model, info):
    """Index of the logits: named by the training entry, else what a final softmax reads."""
    if info is not None and "logits" in info.options:
        return int(info.options["logits"])
    graph = model.subgraphs[0]
    output = int(graph.outputs[0])
    for op in graph.operators:
        if output in op.outputs and op_name(model, op) == "SOFTMAX":
            return int(op.inputs[0])
    return output


def check_int8(model):
    """Refuse a model with anything but int8 and int32 tensors, naming the first one.

    Raises:
      UnsupportedModelError: a float or int16 tensor.
    """
    allowed = (schema.TensorType.INT8, schema.TensorType.INT32)
    graph = model.subgraphs[0]
    for op in graph.operators:
        for index in [*op.inputs, *op.outputs]:
            tensor = graph.tensors[index] if index >= 0 else None
            if tensor is None or tensor.type in allowed:
                continue
            kind = type_name(tensor.type).lower()
            if tensor.type == schema.TensorType.INT16:
                kind = "int16 activations"
            raise UnsupportedModelError(
                f"{kind} unsupported: tensor {tensor_name(tensor)!r} of {op_name(model, op)}. "
                "Expected int8 activations and weights with int32 biases: convert the Keras model "
                "with tflm-train convert"
            )
