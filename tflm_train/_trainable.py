"""Which tensors of a model training may change, and where its logits are."""

from converters.flatbuffer import constant, op_name, schema, tensor_name
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
