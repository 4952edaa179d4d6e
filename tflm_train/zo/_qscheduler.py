"""QScheduler: raise the number of directions q only when progress stalls."""

import math
from typing import NamedTuple


class QSchedulerState(NamedTuple):
    """best: best smoothed metric so far; stagnant: validations since; q: directions a step."""

    best: float
    smoothed: float
    stagnant: int
    q: int


class QScheduler(NamedTuple):
    """The pair of pure functions `qscheduler` returns.

    init: `() -> QSchedulerState`; update: `(metric, state) -> QSchedulerState`.
    """

    init: object
    update: object


def qscheduler(
    *,
    q_init=4,
    q_max=64,
    alpha=2.0,
    patience=5,
    tau=1e-3,
    metric="loss",
    smoothing=0.0,
    values=None,
):
    r"""Raise q by the factor alpha after `patience` validations without improvement.

    With :math:`M_t` the smoothed metric and :math:`M^*` the best so far, an improvement is
    :math:`M_t < M^* - \tau` (loss) or :math:`M_t > M^* + \tau` (accuracy). An improvement stores
    the metric and clears the count; otherwise the count grows, and at `patience` it is cleared
    and :math:`q \leftarrow \min(\alpha q, q_{max})`, rounded down to an allowed value above q.

    Args:
      q_init: directions at the start, at least 1.
      q_max: most directions, q_init to 128.
      alpha: factor, above 1.
      patience: validations without improvement before q grows, at least 1.
      tau: smallest change that counts as improvement, 0 or more, in the metric's unit.
      metric: `loss` (falls) or `accuracy` (grows).
      smoothing: weight of the past in the exponential moving average of the metric, 0 to below 1.
      values: the allowed values of q in growing order; None allows every integer.

    Returns:
      A `QScheduler(init, update)`; the state is a NamedTuple of plain numbers, so that it is saved
      and resumed as it is.

    Raises:
      ValueError: an option out of its range; the message shows the value.

    Example:
      >>> scheduler = qscheduler(q_init=4, patience=1)
      >>> state = scheduler.init()
      >>> state = scheduler.update(2.0, state)   # first value: an improvement
      >>> scheduler.update(2.0, state).q         # none: q doubles
      8

    References:
      QScheduler paper, Algorithm 1 (alpha = 2 and patience = 5 are its best settings).
    """
    if not 1 <= q_init <= 128:
        raise ValueError(f"Expected q_init of 1 to 128, got {q_init}")
    if not q_init <= q_max <= 128:
        raise ValueError(f"Expected q_max of q_init ({q_init}) to 128, got {q_max}")
    if not alpha > 1.0:
        raise ValueError(f"Expected alpha above 1, got {alpha}")
    if patience < 1:
        raise ValueError(f"Expected patience of 1 or more, got {patience}")
    if not tau >= 0.0:
        raise ValueError(f"Expected tau of 0 or more, got {tau}")
    if metric not in ("loss", "accuracy"):
        raise ValueError(f"Expected metric 'loss' or 'accuracy', got {metric!r}")
    if not 0.0 <= smoothing < 1.0:
        raise ValueError(f"Expected smoothing of 0 to below 1, got {smoothing}")
    if values is not None:
        values = tuple(values)
        if list(values) != sorted(set(values)) or q_init not in values:
            raise ValueError(
                f"Expected values in growing order with q_init ({q_init}) among them, got {values}"
            )
    sign = 1.0 if metric == "loss" else -1.0

    def init():
        return QSchedulerState(best=math.inf * sign, smoothed=math.nan, stagnant=0, q=q_init)

    def update(value, state):
        if not math.isfinite(value):
            raise ValueError(f"Expected a finite {metric}, got {value}")
        smoothed = value
        if not math.isnan(state.smoothed):
            smoothed = smoothing * state.smoothed + (1.0 - smoothing) * value
        if sign * smoothed < sign * state.best - tau:
            return QSchedulerState(smoothed, smoothed, 0, state.q)
        stagnant = state.stagnant + 1
        if stagnant < patience:
            return state._replace(smoothed=smoothed, stagnant=stagnant)
        return QSchedulerState(state.best, smoothed, 0, _raised(state.q))

    def _raised(q):
        target = min(int(alpha * q), q_max)
        if values is None:
            return max(q, target)
        return max([v for v in values if v <= target], default=q)

    return QScheduler(init, update)
