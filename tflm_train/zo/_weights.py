"""The trainable tensors of a step: their blocks of random words, perturbation and update."""

import dataclasses

import numpy as np

from converters.errors import TrainingError
from tflm_train import _native

UPDATES = ("stochastic", "int16_shadow", "float_shadow")


@dataclasses.dataclass
class Slot:
    """One trainable tensor with its place in the random streams and its training state."""

    index: int
    name: str
    unit: int
    limit: int
    sign_block: int
    rounding_block: int
    initial: np.ndarray
    momentum: np.ndarray | None = None
    shadow: np.ndarray | None = None


class TrainableWeights:
    """The trainable tensors of an engine, perturbed and updated in place.

    Args:
      engine: an `Engine` that holds them.
      items: `TrainableTensor`s in the order of the training entry.
      units: perturbation unit of each: 1 for weights, output steps for a bias.
      update: `stochastic`, `int16_shadow` or `float_shadow`.
      beta_q8: momentum * 256, 0 to 255; 0 keeps no buffer.
      mu: perturbation in units.

    Raises:
      TrainingError: a weight so large that a perturbation would leave the int8 range.
    """

    def __init__(self, engine, items, units, *, update, beta_q8, mu):
        self._engine = engine
        self.update_kind = update
        self.beta_q8 = beta_q8
        self.slots = []
        signs = draws = 0
        for item, unit in zip(items, units, strict=True):
            values = engine.read(item.tensor)
            limit = 1 << 30 if item.kind == "bias" else 127 - mu
            _check_headroom(item, values, limit)
            if item.kind == "bias" and update != "stochastic":
                raise ValueError(f"Expected update='stochastic' for a bias, got {update!r}")
            self.slots.append(self._slot(item, unit, limit, signs, draws, values))
            signs += -(-values.size // 32)
            draws += -(-values.size // 2)

    def _slot(self, item, unit, limit, signs, draws, values):
        slot = Slot(item.tensor, item.name, unit, limit, signs, draws, values.copy())
        if self.beta_q8:
            slot.momentum = np.zeros(values.size, np.int32)
        if self.update_kind == "int16_shadow":
            slot.shadow = values.ravel().astype(np.int16) * 256
        elif self.update_kind == "float_shadow":
            slot.shadow = values.ravel().astype(np.float32)
        return slot

    def read(self):
        """Copies of the tensors, in order."""
        return [self._engine.read(slot.index) for slot in self.slots]

    def write(self, tensors):
        """Put tensors back, in order."""
        for slot, values in zip(self.slots, tensors, strict=True):
            self._engine.write(slot.index, values)

    def perturbed(self, tensors, seed, step, k, mu):
        """Write `tensors + mu * unit * z_k` into the engine; `tensors` stays as it is."""
        for slot, values in zip(self.slots, tensors, strict=True):
            moved = values.copy()
            _native.zo_perturb(moved.reshape(-1), seed, step, k, slot.sign_block, mu * slot.unit)
            self._engine.write(slot.index, moved)

    def update(self, coefficients, seed, step):
        """Apply one step's coefficients; returns the number of weights at their limit."""
        coefficients = np.ascontiguousarray(coefficients, np.int32)
        saturated = 0
        for slot in self.slots:
            values = self._engine.read(slot.index)
            saturated += _native.zo_update(
                values.reshape(-1),
                slot.shadow,
                slot.momentum,
                coefficients,
                seed,
                step,
                self.beta_q8,
                slot.unit,
                slot.limit,
                slot.sign_block,
                slot.rounding_block,
            )
            self._engine.write(slot.index, values)
        return saturated

    @property
    def size(self):
        """Trainable elements in all."""
        return sum(slot.initial.size for slot in self.slots)

    def changed(self):
        """Elements that differ from those at the start."""
        return sum(
            int(np.count_nonzero(now != slot.initial))
            for slot, now in zip(self.slots, self.read(), strict=True)
        )

    def state_dict(self):
        """Arrays for an exact resume."""
        state = {}
        for i, (slot, values) in enumerate(zip(self.slots, self.read(), strict=True)):
            state[f"weights_{i}"] = values
            state[f"initial_{i}"] = slot.initial
            if slot.momentum is not None:
                state[f"momentum_{i}"] = slot.momentum.copy()
            if slot.shadow is not None:
                state[f"shadow_{i}"] = slot.shadow.copy()
        return state

    def load_state_dict(self, state):
        """Take over what `state_dict` gave."""
        self.write([state[f"weights_{i}"] for i in range(len(self.slots))])
        for i, slot in enumerate(self.slots):
            slot.initial = np.array(state[f"initial_{i}"])
            if slot.momentum is not None:
                slot.momentum = np.array(state[f"momentum_{i}"])
            if slot.shadow is not None:
                slot.shadow = np.array(state[f"shadow_{i}"])


def _check_headroom(item, values, limit):
    largest = int(np.abs(values.astype(np.int64)).max(initial=0))
    if largest > limit:
        raise TrainingError(
            f"Expected |weights| of at most {limit} in {item.name!r} so that a perturbation can be "
            f"undone, got {largest}: convert the model with tflm-train convert, which leaves that "
            "room, or pass a smaller mu"
        )
