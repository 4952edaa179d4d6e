"""Early stopping: stagnant validation metric, or training that pulls away from validation."""

import math
from typing import NamedTuple


class EarlyStoppingState(NamedTuple):
    """stagnant: epochs without improvement; overfit: epochs in a row of growing gap."""

    best: float
    stagnant: int
    overfit: int
    last_train: float
    last_validation: float


class EarlyStopping(NamedTuple):
    """init: `() -> state`; update: `(train_loss, validation_loss, state) -> (state, reason)`."""

    init: object
    update: object


def early_stopping(*, patience=30, tau=0.0, overfit_patience=10):
    """Stop after `patience` epochs without a better validation loss, or on overfitting.

    Overfitting: the training loss falls while the validation loss grows, `overfit_patience` epochs
    in a row.

    Args:
      patience: stagnant epochs allowed, 1 or more.
      tau: smallest fall of the validation loss that counts, 0 or more.
      overfit_patience: epochs of growing gap allowed, 1 or more.

    Returns:
      An `EarlyStopping(init, update)`; `update`'s second result is None or the reason to stop.

    Raises:
      ValueError: an option out of its range.

    Example:
      >>> stopping = early_stopping(patience=1)
      >>> state, reason = stopping.update(1.0, 1.0, stopping.init())
      >>> stopping.update(1.0, 1.0, state)[1]
      'no better validation loss for 1 epochs'

    References:
      QScheduler paper, Section IV (30 stagnant epochs).
    """
    if patience < 1:
        raise ValueError(f"Expected patience of 1 or more, got {patience}")
    if not tau >= 0.0:
        raise ValueError(f"Expected tau of 0 or more, got {tau}")
    if overfit_patience < 1:
        raise ValueError(f"Expected overfit_patience of 1 or more, got {overfit_patience}")

    def init():
        return EarlyStoppingState(math.inf, 0, 0, math.inf, -math.inf)

    def update(train_loss, validation_loss, state):
        improved = validation_loss < state.best - tau
        stagnant = 0 if improved else state.stagnant + 1
        apart = train_loss < state.last_train and validation_loss > state.last_validation
        # The first epoch has nothing to compare with.
        overfit = state.overfit + 1 if apart and math.isfinite(state.last_train) else 0
        reason = None
        if stagnant >= patience:
            reason = f"no better validation loss for {stagnant} epochs"
        elif overfit >= overfit_patience:
            reason = f"overfitting: the validation loss grew for {overfit} epochs"
        best = validation_loss if improved else state.best
        return EarlyStoppingState(best, stagnant, overfit, train_loss, validation_loss), reason

    return EarlyStopping(init, update)
