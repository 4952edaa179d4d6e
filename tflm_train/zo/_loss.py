"""Losses of int8 outputs: integers with the same bits everywhere, or a function of the caller's."""

import math

import numpy as np

from converters.errors import DataError, TrainingError, UnsupportedModelError
from tflm_train import _native

# One unit of the integer cross-entropy in nats.
NATS = math.log(2) / 65536


def loss_multiplier(scale):
    """`round(scale * log2(e) * 2^16)`: logits steps to units of 2^-16 bit.

    Raises:
      UnsupportedModelError: the scale is so large that one step saturates the loss.
    """
    mult = max(1, round(scale * math.log2(math.e) * 65536))
    if mult > _native.ZO_MAX_LOSS_MULT:
        raise UnsupportedModelError(
            f"Expected a logits scale below 88, got {scale}: calibrate with data the model knows"
        )
    return mult


class IntegerCrossEntropy:
    """Cross-entropy of labels; `unit` converts a batch's sum to nats."""

    name = "cross_entropy"

    def __init__(self, spec):
        self.mult = loss_multiplier(spec.scale)
        self.classes = int(np.prod(spec.shape[1:]))
        self.unit = NATS

    def check(self, targets):
        """Targets as int32 [n], each a class of the model."""
        targets = np.asarray(targets)
        if targets.ndim != 1 or not np.issubdtype(targets.dtype, np.integer):
            raise DataError(
                f"Expected integer labels [n], got {targets.dtype}{list(targets.shape)}"
            )
        if targets.size and not 0 <= targets.min() <= targets.max() < self.classes:
            raise DataError(
                f"Expected labels of 0 to {self.classes - 1} (the model has {self.classes} "
                f"outputs), got {targets.min()} to {targets.max()}"
            )
        return np.ascontiguousarray(targets, np.int32)

    def total(self, logits, targets):
        """Sum over the batch as a Python integer, in units of 2^-16 bit."""
        logits = logits.reshape(len(logits), -1)
        return int(_native.zo_cross_entropy(logits, targets, self.mult).sum())


class IntegerSquaredError:
    """Squared error against int8 targets of the output's scale, for autoencoders."""

    name = "squared_error"

    def __init__(self, spec):
        self.spec = spec
        self.unit = spec.scale**2 / int(np.prod(spec.shape[1:]))

    def check(self, targets):
        """Targets as int8 [n, ...]: real values are quantised with the output's scale."""
        targets = np.asarray(targets)
        if targets.shape[1:] != self.spec.shape[1:]:
            raise DataError(
                f"Expected targets of shape [n, {self.spec.shape[1:]}], got {targets.shape}"
            )
        return targets if targets.dtype == np.int8 else self.spec.quantize(targets)

    def total(self, outputs, targets):
        """Sum over the batch of squared steps as a Python integer."""
        return int(_native.zo_squared_error(np.ascontiguousarray(outputs), targets).sum())


class CallableLoss:
    """A caller's `loss(real_logits, targets) -> float`, the batch's mean; rounded to 2^-16 bit."""

    name = "callable"

    def __init__(self, function, spec):
        self.function = function
        self.spec = spec
        self.unit = NATS

    def check(self, targets):
        """Targets are the caller's own affair."""
        return np.asarray(targets)

    def total(self, logits, targets):
        """Batch sum in units of 2^-16 bit.

        Raises:
          TrainingError: the function gave NaN, infinity or no number.
        """
        value = float(self.function(self.spec.dequantize(logits), targets))
        if not math.isfinite(value):
            raise TrainingError(f"Expected a finite loss, got {value}")
        return round(value * len(logits) / NATS)


def make_loss(loss, spec):
    """The loss object behind `cross_entropy`, `squared_error` or a function.

    Raises:
      ValueError: another name.
    """
    if callable(loss):
        return CallableLoss(loss, spec)
    kinds = {"cross_entropy": IntegerCrossEntropy, "squared_error": IntegerSquaredError}
    if loss not in kinds:
        raise ValueError(f"Expected loss {', '.join(kinds)} or a function, got {loss!r}")
    return kinds[loss](spec)
