"""Keras models to int8 flatbuffers with power-of-two scales for the integer-only methods."""

import logging

import numpy as np

from converters import calibration as calibration_module
from converters.errors import CalibrationError, ConversionError
from converters.float_graph import lower
from converters.fold import fold_constants
from converters.loading import load_model
from converters.priot_calibrate import RULES, calibrate
from converters.priot_chain import chain_of
from converters.priot_net import ROUNDINGS, quantize_biases, quantize_weights
from converters.priot_scores import check_scores, initialise
from converters.priot_write import write_net
from converters.training_info import TrainingInfo

_log = logging.getLogger("tflm_train")

METHODS = ("priot", "priot-s", "niti")
# N(32, 8) starts PRIOT-S unpruned, at the backbone's accuracy (docs/priot_results.md).
DEFAULT_INIT = {"priot": (0, 32), "priot-s": (32, 8), "niti": (0, 0)}
DEFAULT_THRESHOLD = {"priot": -64, "priot-s": 0, "niti": -128}
DEFAULT_RULE = {"priot": "cover", "priot-s": "cover", "niti": "cover"}
DEFAULT_MU = {"priot": 2, "priot-s": 2, "niti": 1}
_CALIBRATION_SAMPLES = 512


def convert_priot(
    model,
    *,
    calibration,
    targets,
    method="priot",
    mu=None,
    rounding="tflm",
    rounding_backward=None,
    rounding_update=None,
    masked_backward=None,
    init=None,
    threshold=None,
    unscored=0.9,
    selection="weight",
    shift_rule=None,
    labels=None,
    normalization=None,
    description=None,
    samples=None,
    progress=None,
    seed=0,
):
    """Convert a Keras model for PRIOT, PRIOT-S or NITI.

    Scales are powers of two with zero point 0; the shifts of the forward pass, the backward pass
    and the updates are found over pre-training data and stored with scores, thresholds and scored
    edges in the file (PRIOT paper, Section III; docs/priot_format.md).

    Args:
      model: a Keras model or a path, as for `convert`; a chain of Conv2D, DepthwiseConv2D, Dense,
        MaxPooling2D, ReLU and Flatten layers that ends in Dense logits.
      calibration: samples of the pre-training set.
      targets: their labels; the backward shifts come from the errors they leave.
      method: `priot`, `priot-s` or `niti`.
      mu: the largest entry of an update is about 2^mu; the learning rate of this family. Default
        2, niti 1.
      rounding: of the forward pass; `tflm` is what stock TFLM computes.
      rounding_backward: of errors, default as `rounding`.
      rounding_update: of updates, default as `rounding`.
      masked_backward: errors pass through masked weights (True) or all of them (the paper's form).
        Default True; niti has no masks.
      init: (mean, standard deviation) of the scores; default (0, 32), priot-s (32, 8).
      threshold: edges with a lower score are pruned; default -64, priot-s 0.
      unscored: priot-s: share p of edges without a score.
      selection: priot-s: `weight` scores the largest weights, `random` any.
      shift_rule: how backward shifts and updates are calibrated, `cover` or the paper's `mode`
        (converters.priot_calibrate).
      labels: class names.
      normalization: as for `convert`.
      description: one line about the model.
      samples: use this many calibration samples, drawn evenly; default at most 512.
      progress: called with (passes done, passes in all).
      seed: of the initial scores.

    Returns:
      The bytes of a `.tflite` file: masked custom operators for priot and priot-s, builtin ones for
      niti.

    Raises:
      ConversionError: an option out of range, or a model that is not such a chain.
      CalibrationError: data or labels that do not fit.

    Example:
      >>> raw = convert_priot(model, calibration=x, targets=y)  # doctest: +SKIP
    """
    if method not in METHODS:
        raise ConversionError(f"Expected method to be one of {METHODS}, got {method!r}")
    init = tuple(init or DEFAULT_INIT[method])
    threshold = DEFAULT_THRESHOLD[method] if threshold is None else threshold
    mu = DEFAULT_MU[method] if mu is None else mu
    roundings = {
        "rounding_forward": rounding,
        "rounding_backward": rounding_backward or rounding,
        "rounding_update": rounding_update or rounding,
    }
    _check(mu, roundings, shift_rule)
    check_scores(selection, unscored if method == "priot-s" else 0.0, init, threshold)
    graph = lower(load_model(model))
    fold_constants(graph)
    net = chain_of(graph)
    net.method = method
    data = calibration_module.prepare(
        calibration,
        graph.input_names,
        [(1, *net.input_shape)],
        normalization=normalization,
        seed=seed,
    )
    x, y, net.input_exponent = _samples(
        data.arrays[0], targets, net, samples or _CALIBRATION_SAMPLES
    )
    quantize_weights(net)
    if method != "niti":
        initialise(
            net.weighted(),
            sparse=method == "priot-s",
            selection=selection,
            unscored=unscored,
            init=init,
            threshold=threshold,
            seed=seed,
        )
    report = _calibrate_unpruned(net, x, y, shift_rule or DEFAULT_RULE[method], progress)
    quantize_biases(net)
    net.options = {
        "mu": mu,
        "mu_schedule": "decayed",
        **roundings,
        "masked_backward": method != "niti" if masked_backward is None else masked_backward,
        "init": list(init),
        "seed": seed,
    }
    if method == "priot-s":
        net.options |= {"unscored": unscored, "selection": selection}
    net.description = description
    info = TrainingInfo(
        method=method,
        calibrated=calibration is not None,
        calibration={**data.summary(), "samples": len(x), "shifts": report},
        options={"fixed_scales": True},
        labels=tuple(str(name) for name in labels or ()),
        normalization=normalization or {},
    )
    return write_net(net, info=info)


def _check(mu, roundings, shift_rule):
    if not isinstance(mu, int) or not 0 <= mu <= 7:
        raise ConversionError(f"Expected mu as an integer from 0 to 7, got {mu!r}")
    if shift_rule is not None and shift_rule not in RULES:
        raise ConversionError(f"Expected shift_rule of {tuple(RULES)}, got {shift_rule!r}")
    for name, value in roundings.items():
        if value not in ROUNDINGS:
            raise ConversionError(f"Expected {name} of {ROUNDINGS}, got {value!r}")


def _samples(x, targets, net, most):
    if targets is None:
        raise CalibrationError(
            "Expected labels with the calibration data, got none: the shifts of the backward pass "
            "come from the errors they leave"
        )
    y = np.asarray(targets).ravel()
    classes = net.layers[-1].sizes["outputs"]
    if len(y) != len(x) or np.any(y < 0) or np.any(y >= classes):
        raise CalibrationError(
            f"Expected {len(x)} labels from 0 to {classes - 1}, got {len(y)} labels"
            + (f" from {y.min()} to {y.max()}" if len(y) else "")
        )
    if len(x) > most:
        picked = np.linspace(0, len(x) - 1, most).astype(int)
        x, y = x[picked], y[picked]
    largest = float(np.max(np.abs(x), initial=0.0))
    exponent = -7 if largest == 0 else int(np.ceil(np.log2(largest / 128) - 1e-4))
    steps = np.asarray(x, np.float64) / 2.0**exponent
    codes = np.clip(np.trunc(steps + np.copysign(0.5, steps)), -128, 127).astype(np.int8)
    return codes, y.astype(np.int64), exponent


def _calibrate_unpruned(net, x, y, rule, progress):
    """The shifts belong to the pre-trained net, so no edge is pruned while they are found."""
    thresholds = [layer.threshold for layer in net.weighted()]
    for layer in net.weighted():
        layer.threshold = -128
    report = calibrate(net, x, y, rule=rule, progress=progress)
    for layer, threshold in zip(net.weighted(), thresholds, strict=True):
        layer.threshold = threshold
    return report
