"""Options of the integer-only trainers."""

import dataclasses

from converters.priot_net import ROUNDINGS

METHODS = ("priot", "priot-s", "niti", "edge-popup")
SCHEDULES = ("decayed", "constant")


@dataclasses.dataclass(frozen=True)
class PriotOptions:
    """Options of a `PriotTrainer`, checked; None takes what the file says.

    Attributes:
      method: `priot`, `priot-s`, `niti` or `edge-popup` (top-p instead of a threshold; needs a
        priot model).
      mu: the largest entry of an update is about 2^mu, 0 to 7.
      mu_schedule: `decayed` lowers mu by 1 at half of `epochs` and by 2 at three quarters (not
        below 0); `constant`; or a tuple of values that share the epochs evenly, NITI's own is
        (5, 4, 3).
      epochs: length of the schedule.
      rounding: of outputs and errors; None: the file's.
      rounding_update: of updates; None: the file's.
      masked_backward: errors pass through masked weights; False is the paper's form.
      dynamic: NITI with a shift of its own for every tensor and sample (host only).
      kept: edge-popup: share of the edges of a layer that is kept.
      init: None keeps the file's scores; (mean, standard deviation) draws new ones from `seed`.
      selection: with `init`, priot-s: `random` or `weight`.
      unscored: with `init`, priot-s: share of edges without a score.
      threshold: edges with a lower score are pruned.
      average_every: steps between two updates of a running average of the scores, which then
        decides the masks of evaluation and of the saved model; 0: none.
      average_shift: the average moves by 1/2^average_shift of the distance.
      seed: of new scores and of stochastic rounding.
    """

    method: str | None = None
    mu: int | None = None
    mu_schedule: object = None
    epochs: int = 30
    rounding: str | None = None
    rounding_update: str | None = None
    masked_backward: bool | None = None
    dynamic: bool = False
    kept: float = 0.5
    init: tuple | None = None
    selection: str | None = None
    unscored: float | None = None
    threshold: int | None = None
    average_every: int = 0
    average_shift: int = 5
    seed: int = 0

    def __post_init__(self):
        if self.method is not None and self.method not in METHODS:
            raise ValueError(f"Expected method of {METHODS}, got {self.method!r}")
        for name in ("rounding", "rounding_update"):
            value = getattr(self, name)
            if value is not None and value not in ROUNDINGS:
                raise ValueError(f"Expected {name} of {ROUNDINGS}, got {value!r}")
        limits = {
            "mu": (0, 7), "epochs": (1, 2**31), "threshold": (-128, 127),
            "average_every": (0, 2**31 - 1), "average_shift": (0, 15),
            "seed": (0, 2**32 - 1), "kept": (0.001, 1.0),
        }  # fmt: skip
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"Expected {name} of {low} to {high}, got {value}")
        if isinstance(self.mu_schedule, str) and self.mu_schedule not in SCHEDULES:
            raise ValueError(f"Expected mu_schedule of {SCHEDULES}, got {self.mu_schedule!r}")
        if isinstance(self.mu_schedule, (tuple, list)) and not self.mu_schedule:
            raise ValueError("Expected at least one value in mu_schedule, got none")
        if self.init is None and (self.selection is not None or self.unscored is not None):
            raise ValueError(
                "Expected init=(mean, deviation) with selection or unscored: they choose new scores"
            )
        if self.dynamic and self.method != "niti":
            raise ValueError(f"Expected method='niti' with dynamic=True, got {self.method!r}")


def mu_at(mu, schedule, epoch, epochs):
    """mu of an epoch (from 0)."""
    if isinstance(schedule, (tuple, list)):
        return int(schedule[min(epoch * len(schedule) // epochs, len(schedule) - 1)])
    if schedule == "constant" or epoch * 2 < epochs:
        return mu
    return max(mu - (1 if epoch * 4 < epochs * 3 else 2), 0)
