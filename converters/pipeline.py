"""`convert`: from a Keras model to the bytes of a fully-int8 TFLite file that can be trained."""

import logging
import math

import numpy as np

from converters import calibration as calibration_module
from converters.activation_scales import logits_tensor
from converters.errors import CalibrationError, ConversionError
from converters.flatbuffer import constant, tensor_name, write_model
from converters.float_graph import lower
from converters.fold import fold_constants, unfolded_layers
from converters.loading import load_model
from converters.metadata import add_metadata
from converters.naming import name_tensors, untie_kernels
from converters.op_support import check_float_graph, check_int8_model
from converters.priot_convert import METHODS as PRIOT_METHODS
from converters.priot_convert import convert_priot
from converters.prune import prune_unused
from converters.quantize import QuantizeOptions, quantize_graph
from converters.ranges import observe_ranges
from converters.scales import TRAINABLE_LIMIT
from converters.trainable import layer_of, select
from converters.training_info import TrainableTensor, TrainingInfo, write_training_info

_LOGGER = logging.getLogger(__name__)


def convert(
    model,
    *,
    calibration=None,
    method="zo",
    targets=None,
    method_options=None,
    weights="per-tensor",
    scales="affine",
    calibration_clip=None,
    trainable="last",
    weight_headroom=1.0,
    logit_headroom=1.0,
    labels=None,
    normalization=None,
    description=None,
    calibration_samples=None,
    progress=None,
    seed=0,
):
    """Convert a Keras model to a fully-int8 TFLite model with scales that stay fixed for good.

    Every tensor is int8 (int32 for biases and shapes), the batch is 1, and trainable weights are
    quantised to +-126 so that a perturbation of one code never saturates (QScheduler paper,
    Section III). The model object is left as it was.

    Args:
      model: a Keras model, or a path to `.keras`, `.h5` (Keras 2 or 3) or a SavedModel folder.
      calibration: samples that show the range of the inputs: an array, a dict by input name, a
        list in the order of `model.inputs`, or an `.npz` path. None takes synthetic noise, warns,
        and marks the model uncalibrated.
      method: training method the file is made for: `zo`, or `priot`, `priot-s`, `niti` for
        power-of-two scales and training in integers alone (`converters.priot_convert`); those
        train every layer, and options of scales and ranges do not apply.
      targets: labels of the calibration data, needed for priot, priot-s and niti.
      method_options: further options of `converters.priot_convert.convert_priot`, by name.
      weights: `per-tensor` (one scale per dense kernel) or `per-channel`; convolutions are per
        channel unless `scales` is `power-of-two`.
      scales: `affine`, or `power-of-two`: symmetric, zero point 0, every scale 2^e.
      calibration_clip: cut each input at this percentile and 100 minus it before calibration.
      trainable: `last`, `last:K`, `all`, layer names separated by commas, `bias` (int32 biases,
        node perturbation) or `bias:` followed by one of these.
      weight_headroom: range of trainable weights over their largest magnitude; 4 suits long
        fine-tuning, in which weights grow about 2.5 times.
      logit_headroom: range of the logits over the calibrated one; 1 to 2 suits fine-tuning.
      labels: class names, in order.
      normalization: `{"scale": s, "offset": o}`: float input = raw data * s + o. Calibration data
        are raw data.
      description: one line about the model.
      calibration_samples: use this many samples, drawn evenly; None uses all.
      progress: called with (samples done, samples in all) during calibration.
      seed: seed of the synthetic noise.

    Returns:
      The bytes of a `.tflite` file.

    Raises:
      ConversionError: an option out of range, or layers int8 cannot express (all named at once).
      CalibrationError: calibration data that do not fit.

    Example:
      >>> import keras, numpy as np
      >>> from converters import convert
      >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
      >>> raw = convert(model, calibration=np.random.rand(8, 4))
      >>> raw[4:8]
      b'TFL3'
    """
    if method in PRIOT_METHODS:
        return convert_priot(
            model,
            calibration=calibration,
            targets=targets,
            method=method,
            labels=labels,
            normalization=_check_normalization(normalization),
            description=description,
            samples=calibration_samples,
            progress=progress,
            seed=seed,
            **(method_options or {}),
        )
    _check_options(
        method, weights, scales, calibration_clip, weight_headroom, logit_headroom, labels
    )
    normalization = _check_normalization(normalization)
    graph = lower(load_model(model))
    fold_constants(graph)
    check_float_graph(graph)
    untie_kernels(graph)
    name_tensors(graph)
    not_folded = unfolded_layers(graph)
    if not_folded:
        _LOGGER.warning(
            "not folded: layer %s: int8 MUL and ADD remain and are not trainable",
            ", ".join(not_folded),
        )
    kind, ops = select(graph, trainable, forbidden=not_folded)
    subgraph = graph.model.subgraphs[0]
    data = calibration_module.prepare(
        calibration,
        graph.input_names,
        [tuple(int(d) for d in subgraph.tensors[i].shape) for i in subgraph.inputs],
        clip=calibration_clip,
        normalization=normalization,
        samples=calibration_samples,
        seed=seed,
    )
    ranges = observe_ranges(graph.model, write_model(graph.model), data, progress=progress)
    _check_ranges(graph, ranges)
    result = quantize_graph(
        graph,
        ranges,
        QuantizeOptions(
            per_channel_dense=weights == "per-channel",
            power_of_two=scales == "power-of-two",
            trainable_weights=frozenset(ops if kind == "weight" else ()),
            trainable_biases=frozenset(ops if kind == "bias" else ()),
            weight_headroom=weight_headroom,
            logit_headroom=logit_headroom,
        ),
    )
    prune_unused(result)
    result.description = (description or "int8 model for tflm-train").encode()
    logits = logits_tensor(result)
    info = TrainingInfo(
        method=method,
        trainable=_trainable_tensors(graph, result, kind, ops),
        calibrated=calibration is not None,
        calibration=data.summary(),
        options={
            "weights": weights,
            "per_channel_dense": weights == "per-channel",
            "scales": scales,
            "fixed_scales": True,
            "trainable": trainable,
            "weight_headroom": weight_headroom,
            "logit_headroom": logit_headroom,
            "calibration_clip": calibration_clip,
            "logits": logits,
            "logits_name": tensor_name(result.subgraphs[0].tensors[logits]),
            "learning_rate_rule": "rms",
            "not_folded": not_folded,
        },
        labels=tuple(str(name) for name in labels or ()),
        normalization=normalization,
    )
    write_training_info(result, info)
    check_int8_model(result)
    return add_metadata(
        write_model(result),
        labels=info.labels,
        normalization=info.normalization,
        description=description,
    )


def _check_options(method, weights, scales, clip, weight_headroom, logit_headroom, labels):
    allowed = {
        "method": (method, ("zo", *PRIOT_METHODS)),
        "weights": (weights, ("per-tensor", "per-channel")),
        "scales": (scales, ("affine", "power-of-two")),
    }
    for name, (value, choices) in allowed.items():
        if value not in choices:
            raise ConversionError(f"Expected {name} to be one of {choices}, got {value!r}")
    if weights == "per-channel" and scales == "power-of-two":
        raise ConversionError(
            "Expected weights='per-tensor' with scales='power-of-two', got 'per-channel': the "
            "integer-only methods keep one exponent per tensor"
        )
    for name, value in (("weight_headroom", weight_headroom), ("logit_headroom", logit_headroom)):
        if not isinstance(value, (int, float)) or not math.isfinite(value) or not 1 <= value <= 64:
            raise ConversionError(f"Expected {name} from 1 to 64, got {value!r}")
    if clip is not None and (not isinstance(clip, (int, float)) or not 0 < clip < 50):
        raise ConversionError(f"Expected calibration_clip between 0 and 50 percent, got {clip!r}")
    if any("\n" in str(name) for name in labels or ()):
        raise ConversionError("Expected labels without line breaks, got one with")
    if isinstance(labels, str):
        raise ConversionError(f"Expected labels as a list of names, got the string {labels!r}")


def _check_normalization(normalization):
    if not normalization:
        return {}
    unknown = set(normalization) - {"scale", "offset"}
    if unknown:
        raise ConversionError(
            f"Expected normalization with keys 'scale' and 'offset', got {sorted(unknown)}"
        )
    values = {
        "scale": float(normalization.get("scale", 1.0)),
        "offset": float(normalization.get("offset", 0.0)),
    }
    if not all(math.isfinite(v) for v in values.values()) or values["scale"] == 0:
        raise ConversionError(f"Expected a finite, non-zero normalization, got {values}")
    return values


def _check_ranges(graph, ranges):
    bad = [i for i, span in ranges.items() if not np.all(np.isfinite(span))]
    if bad:
        name = tensor_name(graph.model.subgraphs[0].tensors[bad[0]])
        raise CalibrationError(
            f"Expected finite activations, got {ranges[bad[0]]} in tensor {name!r}: the model "
            "overflows on the calibration data, or holds NaN weights"
        )


def _trainable_tensors(graph, model, kind, ops):
    subgraph = model.subgraphs[0]
    result, seen = [], set()
    for number in ops:
        op = subgraph.operators[number]
        index = int(op.inputs[1 if kind == "weight" else 2])
        if index in seen:
            continue
        seen.add(index)
        tensor = subgraph.tensors[index]
        limit = TRAINABLE_LIMIT
        if kind == "bias":
            limit = _bias_limit(model, subgraph, op, tensor)
        layer = layer_of(graph, graph.model.subgraphs[0].operators[number])
        layer = layer or tensor_name(tensor)
        result.append(TrainableTensor(index, number, tensor_name(tensor), layer, kind, limit))
    return tuple(result)


def _bias_limit(model, subgraph, op, tensor):
    """Largest bias that leaves the int32 accumulator room for any input."""
    filter_tensor = subgraph.tensors[op.inputs[1]]
    channels = int(tensor.shape[0])
    products = math.prod(int(d) for d in filter_tensor.shape) // channels
    limit = min(2**30, 2**31 - 1 - products * 255 * 127)
    peak = int(np.abs(constant(model, tensor).astype(np.int64)).max(initial=0))
    if limit <= peak:
        raise ConversionError(
            f"Expected bias {tensor_name(tensor)!r} within {limit} codes, got {peak}: too large to "
            "train; choose its weights instead"
        )
    return limit
