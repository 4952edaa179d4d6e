"""Write a `PriotNet` as a flatbuffer: masked custom operators, or builtin ones alone."""

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converters.flatbuffer import write_model
from converters.priot_format import MASKED_OPS, STORAGES, MaskedOptions, pack_scores
from converters.priot_net import ROUNDINGS
from converters.training_info import TrainableTensor, TrainingInfo, write_training_info

_BUILTIN = schema.BuiltinOperator
_VERSIONS = {
    _BUILTIN.CONV_2D: 3,
    _BUILTIN.DEPTHWISE_CONV_2D: 3,
    _BUILTIN.FULLY_CONNECTED: 4,
    _BUILTIN.MAX_POOL_2D: 2,
    _BUILTIN.RESHAPE: 1,
}
_TYPES = {
    np.dtype(np.int8): schema.TensorType.INT8,
    np.dtype(np.uint8): schema.TensorType.UINT8,
    np.dtype(np.uint16): schema.TensorType.UINT16,
    np.dtype(np.int32): schema.TensorType.INT32,
}


class GraphWriter:
    """Tensors, operators and codes of one sub-graph."""

    def __init__(self, description):
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.description = description.encode()
        self.model.buffers = [schema.BufferT()]
        self.model.operatorCodes = []
        self.graph = schema.SubGraphT()
        self.graph.name = b"main"
        self.graph.tensors, self.graph.operators = [], []
        self.model.subgraphs = [self.graph]

    def tensor(self, name, shape, *, values=None, exponent=None, dtype=np.int8):
        """Add a tensor; returns its index."""
        tensor = schema.TensorT()
        tensor.name = name.encode()
        tensor.shape = [int(d) for d in shape]
        tensor.type = _TYPES[np.dtype(dtype if values is None else values.dtype)]
        tensor.buffer = 0
        if values is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            tensor.buffer = len(self.model.buffers) - 1
        if exponent is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.array([2.0**exponent], np.float32)
            tensor.quantization.zeroPoint = np.array([0], np.int64)
            tensor.quantization.quantizedDimension = 0
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def operator(self, code, inputs, outputs, *, options=None, custom=None):
        """Add an operator: a builtin code, or a custom name with option bytes."""
        op = schema.OperatorT()
        op.opcodeIndex = self._code(code)
        op.inputs, op.outputs = list(inputs), list(outputs)
        if options is not None:
            op.builtinOptionsType, op.builtinOptions = options
        if custom is not None:
            op.customOptions = np.frombuffer(custom, np.uint8)
            op.customOptionsFormat = schema.CustomOptionsFormat.FLEXBUFFERS
        self.graph.operators.append(op)
        return len(self.graph.operators) - 1

    def _code(self, code):
        custom = isinstance(code, str)
        for index, known in enumerate(self.model.operatorCodes):
            if known.customCode == code.encode() if custom else known.builtinCode == code:
                return index
        entry = schema.OperatorCodeT()
        entry.builtinCode = _BUILTIN.CUSTOM if custom else code
        entry.deprecatedBuiltinCode = min(entry.builtinCode, 127)
        entry.version = 1 if custom else _VERSIONS[code]
        if custom:
            entry.customCode = code.encode()
        self.model.operatorCodes.append(entry)
        return len(self.model.operatorCodes) - 1


def write_net(net, *, info, frozen=False):
    """The bytes of a `.tflite` file.

    Args:
      net: a calibrated `PriotNet`.
      info: a `TrainingInfo` with labels, normalisation, calibration and options; its `trainable`,
        `method` and `method_data` are filled in here.
      frozen: builtin operators alone, pruned weights as zeros; nothing is trainable.
    """
    writer = GraphWriter(net.description or f"{net.method} model for tflm-train")
    current = writer.tensor(net.input_name, (1, *net.input_shape), exponent=net.input_exponent)
    writer.graph.inputs = [current]
    shape, exponent = net.input_shape, net.input_exponent
    entries, trainable = [], []
    for layer in net.layers:
        if layer.kind == "dense" and len(shape) > 1:
            current = _flatten(writer, layer, current, shape, exponent)
        shape = layer.out_shape
        if layer.kind == "max_pool":
            out = writer.tensor(f"{layer.name}/max_pool_2d", (1, *shape), exponent=exponent)
            writer.operator(_BUILTIN.MAX_POOL_2D, [current], [out], options=_pool_options(layer))
            entries.append({"name": layer.name, "kind": layer.kind})
            current = out
            continue
        entry, out = _weighted(writer, net, layer, current, exponent, frozen)
        exponent += layer.exponent + layer.forward_shift
        current = out
        entries.append(entry)
        if not frozen:
            trainable.append(_trainable(layer, entry))
    writer.graph.outputs = [current]
    method_data = {
        "version": 1,
        "input_exponent": net.input_exponent,
        "layers": entries,
        "options": net.options,
    }
    done = TrainingInfo(
        method="frozen" if frozen else net.method,
        trainable=tuple(trainable),
        calibrated=info.calibrated,
        calibration=info.calibration,
        options={**info.options, "scales": "power-of-two", "logits": current},
        labels=info.labels,
        normalization=info.normalization,
        method_data={} if frozen else method_data,
    )
    write_training_info(writer.model, done)
    return write_model(writer.model)


def _trainable(layer, entry):
    trains_scores = layer.scores is not None
    tensor = entry["scores"] if trains_scores else entry["weights"]
    return TrainableTensor(
        tensor=tensor,
        op=entry["op"],
        name=f"{layer.name}/{'scores' if trains_scores else 'kernel'}",
        layer=layer.name,
        kind="score" if trains_scores else "weight",
        limit=127,
    )


def _flatten(writer, layer, current, shape, exponent):
    size = int(np.prod(shape))
    target = writer.tensor(f"{layer.name}/shape", (2,), values=np.array([1, size], np.int32))
    out = writer.tensor(f"{layer.name}/reshape", (1, size), exponent=exponent)
    options = schema.ReshapeOptionsT()
    options.newShape = [1, size]
    writer.operator(
        _BUILTIN.RESHAPE,
        [current, target],
        [out],
        options=(schema.BuiltinOptions.ReshapeOptions, options),
    )
    return out


def _weighted(writer, net, layer, current, exponent, frozen):
    s = layer.sizes
    window = (s.get("kernel_height"), s.get("kernel_width"))
    shape = {
        "conv": (s.get("out_channels"), *window, s.get("in_channels")),
        "depthwise": (1, *window, s.get("out_channels")),
        "dense": (s.get("outputs"), s.get("inputs")),
    }[layer.kind]
    values = layer.effective() if frozen else layer.weights
    weights = writer.tensor(
        f"{layer.name}/kernel", shape, values=values.reshape(shape), exponent=layer.exponent
    )
    channels = layer.out_shape[-1]
    bias = layer.bias if layer.bias is not None else np.zeros(channels, np.int32)
    inputs = [current, weights]
    inputs.append(
        writer.tensor(
            f"{layer.name}/bias", (channels,), values=bias, exponent=exponent + layer.exponent
        )
    )
    out = writer.tensor(
        f"{layer.name}/output",
        (1, *layer.out_shape),
        exponent=exponent + layer.exponent + layer.forward_shift,
    )
    entry = {
        "name": layer.name,
        "kind": layer.kind,
        "weights": weights,
        "exponent": layer.exponent,
        "forward_shift": layer.forward_shift,
        "backward_shift": layer.backward_shift,
        "gradient_bits": layer.gradient_bits,
    }
    if layer.scores is None or frozen:
        code, options = _builtin_options(layer)
        entry["op"] = writer.operator(code, inputs, [out], options=options)
        return entry, out
    storage, scores, scored = pack_scores(layer)
    name = f"{layer.name}/scores"
    inputs.append(writer.tensor(name, (len(scores),), values=scores))
    inputs.append(
        -1
        if scored is None
        else writer.tensor(f"{layer.name}/scored", (len(scored),), values=scored)
    )
    options = MaskedOptions(
        layer.forward_shift,
        ROUNDINGS.index(net.options.get("rounding_forward", "tflm")),
        layer.threshold,
        storage,
        int(layer.relu),
        *(s.get(k, 0) for k in ("stride_height", "stride_width", "pad_top", "pad_left")),
    )
    entry |= {
        "op": writer.operator(MASKED_OPS[layer.kind], inputs, [out], custom=options.pack()),
        "scores": inputs[3],
        "scored": inputs[4],
        "storage": STORAGES[storage],
        "threshold": layer.threshold,
    }
    return entry, out


def _builtin_options(layer):
    activation = schema.ActivationFunctionType
    fused = activation.RELU if layer.relu else activation.NONE
    padding = schema.Padding.SAME if layer.same else schema.Padding.VALID
    if layer.kind == "dense":
        options = schema.FullyConnectedOptionsT()
        kind = schema.BuiltinOptions.FullyConnectedOptions
        code = _BUILTIN.FULLY_CONNECTED
    elif layer.kind == "conv":
        options = schema.Conv2DOptionsT()
        kind, code = schema.BuiltinOptions.Conv2DOptions, _BUILTIN.CONV_2D
    else:
        options = schema.DepthwiseConv2DOptionsT()
        options.depthMultiplier = layer.sizes["out_channels"] // layer.sizes["in_channels"]
        kind = schema.BuiltinOptions.DepthwiseConv2DOptions
        code = _BUILTIN.DEPTHWISE_CONV_2D
    options.fusedActivationFunction = fused
    if layer.kind != "dense":
        options.padding = padding
        options.strideH, options.strideW = layer.sizes["stride_height"], layer.sizes["stride_width"]
        options.dilationHFactor = options.dilationWFactor = 1
    return code, (kind, options)


def _pool_options(layer):
    options = schema.Pool2DOptionsT()
    options.padding = schema.Padding.SAME if layer.same else schema.Padding.VALID
    options.strideH, options.strideW = layer.sizes["stride_height"], layer.sizes["stride_width"]
    options.filterHeight = layer.sizes["filter_height"]
    options.filterWidth = layer.sizes["filter_width"]
    options.fusedActivationFunction = schema.ActivationFunctionType.NONE
    return schema.BuiltinOptions.Pool2DOptions, options
