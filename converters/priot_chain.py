"""From a float TFLite graph to the layer chain that the integer-only methods train."""

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converters.errors import ConversionError
from converters.flatbuffer import constant, op_name
from converters.op_support import fused_activation
from converters.priot_net import DENSE_SIZES, PriotLayer, PriotNet, conv_sizes, pool_sizes
from converters.trainable import layer_of

_KINDS = {"CONV_2D": "conv", "DEPTHWISE_CONV_2D": "depthwise", "FULLY_CONNECTED": "dense"}
_RELU = schema.ActivationFunctionType.RELU
_NONE = schema.ActivationFunctionType.NONE


def chain_of(graph):
    """The layers of a `FloatGraph`.

    Conv2D, DepthwiseConv2D, Dense, MaxPooling2D, ReLU, Flatten and a closing Softmax (which is left
    out: the loss reads the logits) are understood; batch normalisation was folded by the converter.

    Raises:
      ConversionError: a branch, or layers of another kind; all are named at once.
    """
    model, subgraph = graph.model, graph.model.subgraphs[0]
    problems = []
    if len(subgraph.inputs) != 1 or len(subgraph.outputs) != 1:
        raise ConversionError(
            f"Expected a chain with one input and one output for the integer-only methods, got "
            f"{len(subgraph.inputs)} inputs and {len(subgraph.outputs)} outputs: use --method zo"
        )
    current = int(subgraph.inputs[0])
    shape = tuple(int(d) for d in subgraph.tensors[current].shape[1:])
    net = PriotNet([], shape, graph.input_names[0])
    for number, op in enumerate(subgraph.operators):
        name = op_name(model, op)
        where = f"{name} ({layer_of(graph, op) or f'operator {number}'})"
        if int(op.inputs[0]) != current:
            problems.append(f"{where}: not a chain")
            break
        current = int(op.outputs[0])
        if name in _KINDS:
            layer, shape = _weighted(graph, op, name, shape, number, problems, where)
            if layer is not None:
                net.layers.append(layer)
        elif name == "MAX_POOL_2D":
            shape = _pool(net, op, shape, number, problems, where)
        elif name in ("RESHAPE", "SQUEEZE", "EXPAND_DIMS"):
            shape = (int(np.prod(shape)),)
        elif name == "RELU":
            _fuse_relu(net, problems, where)
        elif name == "SOFTMAX" and op is subgraph.operators[-1]:
            pass
        else:
            problems.append(f"{where}: no such layer here")
    if not problems and (not net.layers or net.layers[-1].kind != "dense" or net.layers[-1].relu):
        problems.append("the last layer is not a Dense layer without activation")
    if problems:
        raise ConversionError(
            "Expected a chain of Conv2D, DepthwiseConv2D, Dense, MaxPooling2D, ReLU and Flatten "
            f"layers that ends in Dense logits, got {'; '.join(problems)}: change the model or use "
            "--method zo"
        )
    return net


def _weighted(graph, op, name, shape, number, problems, where):
    model, subgraph = graph.model, graph.model.subgraphs[0]
    kernel = constant(model, subgraph.tensors[int(op.inputs[1])])
    if kernel is None:
        problems.append(f"{where}: weights are not constant")
        return None, shape
    bias = None
    if len(op.inputs) > 2 and op.inputs[2] >= 0:
        bias = constant(model, subgraph.tensors[int(op.inputs[2])])
    activation = fused_activation(op)
    if activation not in (_RELU, _NONE):
        problems.append(f"{where}: activation other than ReLU")
    kind, options, same = _KINDS[name], op.builtinOptions, True
    if kind == "dense":
        if int(np.prod(shape)) != kernel.shape[1]:
            problems.append(f"{where}: applied along one axis of {shape}; flatten first")
        sizes = dict(zip(DENSE_SIZES, (kernel.shape[1], kernel.shape[0]), strict=True))
    else:
        same = options.padding == schema.Padding.SAME
        if options.dilationHFactor != 1 or options.dilationWFactor != 1:
            problems.append(f"{where}: dilation")
        channels = kernel.shape[0] if kind == "conv" else kernel.shape[3]
        if kind == "conv" and kernel.shape[3] != shape[2]:
            problems.append(f"{where}: grouped convolution")
        stride = (options.strideH, options.strideW)
        sizes = conv_sizes(shape, kernel.shape[1:3], stride, channels, same)
    layer = PriotLayer(
        kind,
        {k: int(v) for k, v in sizes.items()},
        layer_of(graph, op) or f"layer{number}",
        relu=activation == _RELU,
        same=same,
        kernel=np.asarray(kernel, np.float64),
        float_bias=bias,
    )
    return layer, layer.out_shape


def _pool(net, op, shape, number, problems, where):
    options = op.builtinOptions
    same = options.padding == schema.Padding.SAME
    window = (options.filterHeight, options.filterWidth)
    if options.fusedActivationFunction == _RELU:
        _fuse_relu(net, problems, where)
    elif options.fusedActivationFunction != _NONE:
        problems.append(f"{where}: activation other than ReLU")
    sizes = pool_sizes(shape, window, (options.strideH, options.strideW), same)
    net.layers.append(
        PriotLayer("max_pool", {k: int(v) for k, v in sizes.items()}, f"pool{number}", same=same)
    )
    return net.layers[-1].out_shape


def _fuse_relu(net, problems, where):
    """max and ReLU commute, so a ReLU behind a pool belongs to the layer before it."""
    for layer in reversed(net.layers):
        if layer.has_weights:
            layer.relu = True
            return
    problems.append(f"{where}: ReLU before any weights")
