"""Options of the zeroth-order trainers, checked in one place."""

import dataclasses
import math

from tflm_train import _native
from tflm_train.zo._weights import UPDATES

ESTIMATORS = ("one_sided", "leave_one_out", "two_sided")


@dataclasses.dataclass(frozen=True)
class ZoOptions:
    """Options of a `ZoTrainer`, checked; every field is a number or a name, so it is saved as is.

    Attributes:
      q: directions a step, 1 to 128; a scheduler's `q_init` when one is given.
      mu: perturbation in weight steps, 1 or more (the paper's mu >= S_w).
      lr: learning rate: weight steps per step of normalised gradient (`rms`), or the raw rate of
        the gradient in nats per weight step (`raw`).
      normalize: `rms` divides by the running root mean square of the loss differences, so that lr
        carries over from model to model; `raw` is the paper's.
      lr_per_q: how lr follows a growing q: `constant`, `sqrt` or `linear` in q / first q.
      estimator: `one_sided` (paper), `leave_one_out` (one forward fewer) or `two_sided`.
      momentum: beta, 0 to 0.996; rounded to a multiple of 1/256. 0 keeps no buffer.
      update: `stochastic` (1 byte a weight), `int16_shadow` (2) or `float_shadow` (4).
      decay: `cosine` to zero over `total_steps`, or `constant`.
      total_steps: length of the decay, required with `cosine`.
      seed: of every random number, 0 to 2^32 - 1.
    """

    q: int = 16
    mu: int = 1
    lr: float = 0.5
    normalize: str = "rms"
    lr_per_q: str = "constant"
    estimator: str = "one_sided"
    momentum: float = 0.9
    update: str = "stochastic"
    decay: str = "constant"
    total_steps: int = 0
    seed: int = 0

    def __post_init__(self):
        one_of("normalize", self.normalize, ("rms", "raw"))
        one_of("lr_per_q", self.lr_per_q, ("constant", "sqrt", "linear"))
        one_of("estimator", self.estimator, ESTIMATORS)
        one_of("update", self.update, UPDATES)
        one_of("decay", self.decay, ("constant", "cosine"))
        least = 2 if self.estimator == "leave_one_out" else 1
        in_range("q", self.q, least, _native.ZO_MAX_Q)
        in_range("mu", self.mu, 1, 63)
        in_range("momentum", self.momentum, 0.0, 255 / 256)
        in_range("seed", self.seed, 0, 2**32 - 1)
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"Expected lr above 0, got {self.lr}")
        if self.normalize == "rms" and self.lr > 256:
            raise ValueError(f"Expected lr of at most 256 weight steps, got {self.lr}")
        if self.decay == "cosine" and self.total_steps < 1:
            raise ValueError(
                f"Expected total_steps of 1 or more for decay='cosine', got {self.total_steps}"
            )


def one_of(name, value, allowed):
    """Refuse a value that is not among `allowed`."""
    if value not in allowed:
        raise ValueError(f"Expected {name} to be one of {', '.join(allowed)}, got {value!r}")


def in_range(name, value, low, high):
    """Refuse a value outside low..high."""
    if not low <= value <= high:
        raise ValueError(f"Expected {name} of {low} to {high}, got {value}")
