"""Readable tensor names: `dense/kernel`, `dense/bias`, `relu/conv_2d`, the input's own name."""

from converters.flatbuffer import constant, op_name, tensor_name
from converters.fold import new_constant
from converters.op_support import WEIGHT_OPS
from converters.trainable import layer_of


def untie_kernels(graph):
    """Give kernels that TensorFlow merged for being equal back to their layers, in place.

    A layer that is called several times keeps its one kernel; two layers that merely start with the
    same values must not be trained as one.
    """
    model, subgraph = graph.model, graph.model.subgraphs[0]
    owners = {}
    for op in subgraph.operators:
        if op_name(model, op) not in WEIGHT_OPS:
            continue
        index, layer = int(op.inputs[1]), layer_of(graph, op)
        key = (index, layer)
        if all(owner[0] != index for owner in owners):
            owners[key] = index
        elif key not in owners:
            values = constant(model, subgraph.tensors[index])
            owners[key] = new_constant(model, subgraph, "untied", values)
        op.inputs = [op.inputs[0], owners[key], *op.inputs[2:]]


def name_tensors(graph):
    """Rename the tensors of a `FloatGraph` in place after the Keras layers they came from."""
    model, subgraph = graph.model, graph.model.subgraphs[0]
    names = {}
    taken = {tensor_name(subgraph.tensors[i]) for i in subgraph.inputs}

    def give(index, name):
        if index in names or index in subgraph.inputs:
            return
        unique, number = name, 1
        while unique in taken:
            unique, number = f"{name}_{number}", number + 1
        taken.add(unique)
        names[index] = unique

    for number, op in enumerate(subgraph.operators):
        kind = op_name(model, op)
        layers = graph.layers.get(int(op.outputs[0]), [])
        if kind in WEIGHT_OPS:
            layer = layer_of(graph, op) or f"op{number}"
            give(int(op.inputs[1]), f"{layer}/kernel")
            if len(op.inputs) > 2 and op.inputs[2] >= 0:
                give(int(op.inputs[2]), f"{layer}/bias")
        else:
            layer = layers[0] if layers else f"op{number}"
            for index in op.inputs:
                if index >= 0 and constant(model, subgraph.tensors[index]) is not None:
                    give(int(index), f"{layer}/constant")
        outer = layers[0] if layers else layer
        for index in op.outputs:
            give(int(index), f"{outer}/{kind.lower()}")
    for index, name in names.items():
        subgraph.tensors[index].name = name.encode()
