"""The three stages of QScheduler as one call: float warm-up, calibration, int8 with headroom.

QScheduler paper, Section IV: a model is first trained in float until it is good enough to give
forward-only steps a slope to follow, then calibrated on 25 batches, then quantised; training goes
on in int8 from there.
"""

import dataclasses
import logging

import numpy as np

from converters.errors import CalibrationError, ConversionError, DataError
from converters.pipeline import convert
from converters.quiet import import_keras, quiet_native_output

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class ThreeStageResult:
    """What the procedure gives.

    Attributes:
      model_bytes: the int8 `.tflite`.
      float_model: the warmed-up Keras model, a copy; the one given is left as it was.
      history: held-out accuracy before warm-up and after each epoch.
      reached: whether `target_accuracy` was reached.
    """

    model_bytes: bytes
    float_model: object
    history: tuple
    reached: bool


def three_stage(
    model,
    x,
    y,
    *,
    target_accuracy,
    calibration_batches=25,
    batch_size=32,
    max_epochs=30,
    learning_rate=1e-3,
    validation_fraction=0.1,
    weight_headroom=4.0,
    logit_headroom=1.5,
    normalization=None,
    progress=None,
    seed=0,
    **options,
):
    """Warm a Keras classifier up in float, calibrate it and convert it to trainable int8.

    Args:
      model: a Keras classifier (object) that ends in a softmax or in logits.
      x: raw training samples `[n, ...]`.
      y: integer labels `[n]`.
      target_accuracy: warm-up stops at this held-out accuracy; 0 skips the warm-up.
      calibration_batches: batches that give the ranges (25 in the paper).
      batch_size: samples per batch, for warm-up and calibration.
      max_epochs: warm-up gives up after this many.
      learning_rate: of Adam, for the warm-up.
      validation_fraction: share of the samples held out to measure accuracy.
      weight_headroom: see `convert`; weights grow about 2.5 times in fine-tuning.
      logit_headroom: see `convert`.
      normalization: `{"scale": s, "offset": o}`, model input = raw * s + o.
      progress: called with (stage name, done, total).
      seed: of the split and of the shuffling.
      **options: further options of `convert`, such as `trainable` or `labels`.

    Returns:
      `ThreeStageResult`.

    Raises:
      DataError: samples and labels that do not fit.
      ConversionError: options out of range, or a model that does not convert.

    Example:
      >>> import keras, numpy as np
      >>> from converters import three_stage
      >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
      >>> x = np.random.default_rng(0).normal(size=(200, 4)); y = (x[:, 0] > 0).astype(int)
      >>> result = three_stage(model, x, y, target_accuracy=0.6, max_epochs=5)
      >>> result.model_bytes[4:8]
      b'TFL3'
    """
    x, y = np.asarray(x), np.asarray(y).reshape(-1)
    _check(x, y, target_accuracy, calibration_batches, batch_size, max_epochs, validation_fraction)
    keras = import_keras()
    if not isinstance(model, keras.Model):
        raise ConversionError(
            f"Expected a Keras model object to warm up, got {type(model).__name__}: load it with "
            "keras.models.load_model"
        )
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(x))
    held = max(1, round(len(x) * validation_fraction))
    held_out, rest = order[:held], order[held:]
    prepared = _normalized(x, normalization, model)
    warm = _clone(keras, model)
    _compile(keras, warm, learning_rate, seed)
    history = [_accuracy(warm, prepared[held_out], y[held_out])]
    for epoch in range(max_epochs):
        if history[-1] >= target_accuracy:
            break
        shuffled = rng.permutation(rest)
        with quiet_native_output():
            warm.fit(
                prepared[shuffled], y[shuffled], batch_size=batch_size, shuffle=False, verbose=0
            )
        history.append(_accuracy(warm, prepared[held_out], y[held_out]))
        if progress:
            progress("float warm-up", epoch + 1, max_epochs)
    reached = history[-1] >= target_accuracy
    if not reached:
        _LOGGER.warning(
            "float warm-up stopped at accuracy %.4f after %d epochs, below the target %.4f",
            history[-1],
            len(history) - 1,
            target_accuracy,
        )
    count = min(len(rest), calibration_batches * batch_size)
    raw = convert(
        warm,
        calibration=x[rng.permutation(rest)[:count]],
        weight_headroom=weight_headroom,
        logit_headroom=logit_headroom,
        normalization=normalization,
        progress=(lambda d, t: progress("calibration", d, t)) if progress else None,
        seed=seed,
        **options,
    )
    return ThreeStageResult(raw, warm, tuple(history), reached)


def _check(x, y, target, batches, batch_size, epochs, fraction):
    if len(x) != len(y) or len(x) < 2:
        raise DataError(f"Expected as many labels as samples, 2 or more, got {len(x)}, {len(y)}")
    if not np.all(np.isfinite(x)):
        bad = int(np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(1))[0])
        raise CalibrationError(f"Expected finite values, got NaN or infinity in sample {bad}")
    for name, value, low, high in (
        ("target_accuracy", target, 0, 1),
        ("calibration_batches", batches, 1, 10**6),
        ("batch_size", batch_size, 1, 10**6),
        ("max_epochs", epochs, 0, 10**6),
    ):
        if not low <= value <= high:
            raise ConversionError(f"Expected {name} from {low} to {high}, got {value}")
    if not 0 < fraction < 1:
        raise ConversionError(f"Expected validation_fraction between 0 and 1, got {fraction}")


def _normalized(x, normalization, model):
    normalization = normalization or {}
    shape = tuple(model.inputs[0].shape[1:]) if getattr(model, "inputs", None) else x.shape[1:]
    x = x.astype(np.float32)
    if x.shape[1:] != shape and (*x.shape[1:], 1) == shape:
        x = x[..., np.newaxis]
    return x * np.float32(normalization.get("scale", 1)) + np.float32(
        normalization.get("offset", 0)
    )


def _clone(keras, model):
    if not getattr(model, "inputs", None):
        raise ConversionError(
            f"model {model.name!r} has no input shape; add Input(...) as the first layer"
        )
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    return copy


def _compile(keras, model, learning_rate, seed):
    keras.utils.set_random_seed(seed)
    last = model.layers[-1]
    activation = getattr(getattr(last, "activation", None), "__name__", "")
    ends_in_softmax = activation == "softmax" or type(last).__name__ == "Softmax"
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=not ends_in_softmax),
    )


def _accuracy(model, x, y):
    with quiet_native_output():
        outputs = model.predict(x, batch_size=256, verbose=0)
    return float(np.mean(outputs.reshape(len(outputs), -1).argmax(1) == y))
