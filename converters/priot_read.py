"""Read a `PriotNet` back from the flatbuffer that `priot_write` made."""

import numpy as np

from converters.errors import ModelFormatError, UnsupportedModelError
from converters.flatbuffer import constant, load_bytes, op_name, read_model, tensor_name
from converters.priot_format import MASKED_OPS, MaskedOptions, unpack_scores
from converters.priot_net import (
    CONV_SIZES,
    DENSE_SIZES,
    POOL_SIZES,
    ROUNDINGS,
    PriotLayer,
    PriotNet,
    conv_sizes,
    pool_sizes,
)
from converters.training_info import read_training_info

METHODS = ("priot", "priot-s", "niti")
_KINDS = {"CONV_2D": "conv", "DEPTHWISE_CONV_2D": "depthwise", "FULLY_CONNECTED": "dense"}
_KINDS |= {name: kind for kind, name in MASKED_OPS.items()}


def read_net(raw):
    """(net, training entry) of a model converted for an integer-only method.

    Args:
      raw: bytes or a path.

    Raises:
      ModelFormatError: a damaged file.
      UnsupportedModelError: a model of another method.
    """
    model = read_model(load_bytes(raw))
    info = read_training_info(model)
    if info is None or info.method not in METHODS:
        found = "no training entry" if info is None else f"one for {info.method!r}"
        raise UnsupportedModelError(
            f"Expected a model converted with --method priot, priot-s or niti, got {found}: "
            "convert the Keras model again"
        )
    try:
        return _net(model, info), info
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        if isinstance(error, ModelFormatError):
            raise
        raise ModelFormatError(
            f"Expected the layers of the training entry in the graph, got {error!r}: the file was "
            "changed by another tool; convert it again"
        ) from error


def _net(model, info):
    graph, data = model.subgraphs[0], info.method_data
    source = graph.tensors[int(graph.inputs[0])]
    shape = tuple(int(d) for d in source.shape[1:])
    net = PriotNet([], shape, tensor_name(source), int(data["input_exponent"]), info.method)
    net.options = dict(data["options"])
    net.description = model.description.decode() if model.description else None
    entries = {e["op"]: e for e in data["layers"] if "op" in e}
    names = [e["name"] for e in data["layers"] if e["kind"] == "max_pool"]
    for number, op in enumerate(graph.operators):
        name = op_name(model, op)
        if name == "MAX_POOL_2D":
            o = op.builtinOptions
            window, stride = (o.filterHeight, o.filterWidth), (o.strideH, o.strideW)
            same = o.padding == 0
            sizes = pool_sizes(shape, window, stride, same)
            net.layers.append(
                PriotLayer("max_pool", _plain(sizes, POOL_SIZES), names.pop(0), same=same)
            )
            shape = net.layers[-1].out_shape
        elif name == "RESHAPE":
            shape = (int(np.prod(shape)),)
        else:
            layer = _layer(model, op, name, shape, entries[number])
            net.layers.append(layer)
            shape = layer.out_shape
    return net


def _plain(sizes, names):
    return {k: int(sizes[k]) for k in names}


def _layer(model, op, name, shape, entry):
    tensors = model.subgraphs[0].tensors
    kind = _KINDS[name]
    weights = constant(model, tensors[int(op.inputs[1])])
    bias = constant(model, tensors[int(op.inputs[2])])
    options = MaskedOptions.unpack(op.customOptions) if "scores" in entry else None
    builtin = op.builtinOptions
    same, relu = True, False
    if kind == "dense":
        sizes = dict(zip(DENSE_SIZES, (weights.shape[1], weights.shape[0]), strict=True))
    elif options is None:
        same = builtin.padding == 0
        sizes = conv_sizes(shape, weights.shape[1:3], (builtin.strideH, builtin.strideW),
                           weights.shape[0 if kind == "conv" else 3], same)  # fmt: skip
    else:
        out = tensors[int(op.outputs[0])].shape
        stride = (options.stride_height, options.stride_width)
        channels = weights.shape[0 if kind == "conv" else 3]
        values = (*shape, *out[1:3], channels, *weights.shape[1:3], *stride,
                  options.pad_top, options.pad_left)  # fmt: skip
        sizes = dict(zip(CONV_SIZES, values, strict=True))
        same = conv_sizes(shape, weights.shape[1:3], stride, channels, True) == sizes
    relu = bool(options.activation) if options else builtin.fusedActivationFunction == 1
    layer = PriotLayer(
        kind,
        {k: int(v) for k, v in sizes.items()},
        entry["name"],
        relu=relu,
        same=same,
        weights=weights.ravel().astype(np.int8),
        bias=bias if np.any(bias) else None,
        exponent=int(entry["exponent"]),
        forward_shift=int(entry["forward_shift"]),
        backward_shift=int(entry["backward_shift"]),
        gradient_bits=int(entry["gradient_bits"]),
    )
    if options is not None:
        if options.shift != layer.forward_shift:
            raise ModelFormatError(
                f"Expected shift {layer.forward_shift} of layer {layer.name!r} in its operator, "
                f"got {options.shift}"
            )
        scores = constant(model, tensors[int(op.inputs[3])])
        scored = None if op.inputs[4] < 0 else constant(model, tensors[int(op.inputs[4])])
        layer.threshold = options.threshold
        layer.scores, layer.scored = unpack_scores(
            options.storage, scores, scored, layer.rows, layer.row_size, layer.name
        )
    return layer


def forward_rounding(net):
    """Name of the rounding of the forward pass."""
    name = net.options.get("rounding_forward", "tflm")
    if name not in ROUNDINGS:
        raise ModelFormatError(f"Expected a rounding of {ROUNDINGS}, got {name!r}")
    return name
