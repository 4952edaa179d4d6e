"""A model's facts as plain data, for `tflm-train inspect` and for scripts."""

import dataclasses

import numpy as np

from converters import metadata
from converters.flatbuffer import constant, load_bytes, op_name, read_model, tensor_name
from converters.training_info import read_training_info
from tflm_train._engines.base import tensor_spec


def describe(model):
    """Inputs, outputs, operators, training entry and metadata of a `.tflite`, JSON-able.

    Raises:
      ModelFormatError: not a TFLite file, or damaged.
    """
    raw = load_bytes(model)
    parsed = read_model(raw)
    graph = parsed.subgraphs[0]
    info = read_training_info(parsed)
    trainable = {} if info is None else {t.tensor: t for t in info.trainable}
    found = {
        "inputs": [_tensor(parsed, i) for i in graph.inputs],
        "outputs": [_tensor(parsed, i) for i in graph.outputs],
        "operators": [_operator(parsed, n, op, trainable) for n, op in enumerate(graph.operators)],
        "training": None if info is None else dataclasses.asdict(info),
        "trainable_elements": sum(int(np.prod(graph.tensors[i].shape)) for i in trainable),
        "labels": list(info.labels) if info else [],
        "normalization": dict(info.normalization) if info else {},
    }
    found.update({k: v for k, v in metadata.describe(raw).items() if v})
    return found


def _tensor(model, index):
    spec = tensor_spec(model, index)
    return {
        "name": spec.name,
        "dtype": spec.dtype.name,
        "shape": list(spec.shape),
        "scale": spec.scale,
        "zero_point": spec.zero_point,
    }


def _operator(model, number, op, trainable):
    graph = model.subgraphs[0]
    constants = [int(i) for i in op.inputs if i >= 0]
    constants = [i for i in constants if constant(model, graph.tensors[i]) is not None]
    weights = constants[0] if constants else None
    output = tensor_spec(model, op.outputs[0])
    row = {
        "index": number,
        "op": op_name(model, op),
        "weights": None,
        "weight_scale": "",
        "output": list(output.shape),
        "output_scale": output.scale,
        "trainable": [tensor_name(graph.tensors[i]) for i in constants if i in trainable],
    }
    quantization = None if weights is None else graph.tensors[weights].quantization
    if quantization is not None and quantization.scale is not None and len(quantization.scale):
        scales = quantization.scale
        row["weights"] = [int(d) for d in graph.tensors[weights].shape]
        row["weight_scale"] = f"{scales[0]:.6g}"
        if len(scales) > 1:
            row["weight_scale"] = f"{len(scales)} scales, {min(scales):.3g} to {max(scales):.3g}"
    return row
