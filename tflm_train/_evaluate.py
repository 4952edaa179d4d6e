"""Loss and accuracy of an `Interpreter` on labelled data."""

import numpy as np

from tflm_train.zo._loss import make_loss


def evaluate(interpreter, x, y, *, progress=None):
    """Mean cross-entropy in nats and accuracy.

    Args:
      interpreter: an `Interpreter`.
      x: samples [n, ...], as the model's calibration data.
      y: integer labels [n].
      progress: called with (samples done, samples in all).

    Returns:
      `{"loss": float, "accuracy": float}`.

    Raises:
      DataError: samples or labels that do not fit the model.
    """
    loss = make_loss("cross_entropy", interpreter.logits_spec)
    y = loss.check(y)
    logits = interpreter.run_suffix(interpreter.features(x, progress=progress))
    logits = logits.reshape(len(logits), -1)
    return {
        "loss": loss.total(logits, y) * loss.unit / len(y),
        "accuracy": float(np.mean(logits.argmax(1) == y)),
    }
