"""The float twin of `ZoTrainer`: same directions, schedule and normalisation, no rounding."""

import dataclasses
import math

import numpy as np

from converters.errors import TrainingError
from converters.flatbuffer import read_model
from tflm_train import _native
from tflm_train._method import Trainer
from tflm_train.zo._float_graph import FloatGraph
from tflm_train.zo._options import ZoOptions
from tflm_train.zo._qscheduler import QSchedulerState


class FloatZoTrainer(Trainer):
    """Trains dequantised weights in float32 with the perturbations of the int8 trainer.

    A float weight is perturbed by mu weight scales and moved in units of its scale, so `lr` and
    `mu` mean the same as for `ZoTrainer`; comparing the two shows what integers cost. The result
    is requantised by `model_bytes`.

    Args:
      interpreter: the int8 model to start from; not changed.
      scheduler: a `qscheduler(...)` or None.
      **options: fields of `ZoOptions`; `update` has no meaning here.

    Raises:
      ValueError: an option out of its range.
      UnsupportedModelError: the trainable suffix has an operator without a float twin.
    """

    method = "zo-float"

    def __init__(self, interpreter, *, scheduler=None, **options):
        self.options = ZoOptions(**options)
        self._interpreter = interpreter
        self._scheduler = scheduler
        self._scheduler_state = scheduler.init() if scheduler else None
        self._first_q = self.q
        self._graph = FloatGraph(
            read_model(interpreter.suffix_bytes()), interpreter.logits_spec.index
        )
        self._slots = [_FloatSlot(interpreter, item) for item in interpreter.trainable]
        self._step = 0
        self._mean_square = 0.0

    @property
    def q(self):
        """Directions of the next step."""
        return self._scheduler_state.q if self._scheduler else self.options.q

    def prepare(self, x):
        """Int8 features of the frozen prefix, as for `ZoTrainer`."""
        return self._interpreter.features(x)

    def train_batch(self, data, y):
        """One step: `loss` (nats), `samples`, `q`."""
        options, q = self.options, self.q
        self._put(None)
        base = self._loss(data, y)
        block, signs = 0, []
        for slot in self._slots:
            signs.append([_signs(options.seed, self._step, k, block, slot.size) for k in range(q)])
            block += -(-slot.size // 32)
        d = np.array([self._difference(data, y, [z[k] for z in signs], base) for k in range(q)])
        if not np.all(np.isfinite(d)):
            raise TrainingError(f"step {self._step}: Expected a finite loss, got {base}")
        rate = self._rate(q, d)
        for slot, z in zip(self._slots, signs, strict=True):
            gradient = np.tensordot((d * rate / q).astype(np.float32), np.array(z), 1)
            slot.momentum = options.momentum * slot.momentum + gradient
            slot.steps = slot.steps - slot.momentum
        self._step += 1
        return {"loss": float(base), "samples": len(y), "q": q}

    def _difference(self, data, y, z, base):
        self._put(z)
        plus = self._loss(data, y)
        if self.options.estimator != "two_sided":
            return plus - base
        self._put([-v for v in z])
        return (plus - self._loss(data, y)) / 2

    def _rate(self, q, d):
        ratio = q / self._first_q
        growth = {"constant": 1.0, "sqrt": math.sqrt(ratio), "linear": ratio}
        rate = self.options.lr * growth[self.options.lr_per_q]
        if self.options.decay == "cosine":
            part = min(1.0, self._step / self.options.total_steps)
            rate *= 0.5 * (1 + math.cos(math.pi * part))
        if self.options.normalize == "raw":
            return rate / self.options.mu
        now = float(np.mean(d**2))
        if now == 0.0:
            return 0.0
        first = self._mean_square == 0.0
        self._mean_square = now if first else self._mean_square + (now - self._mean_square) / 16
        return rate / math.sqrt(self._mean_square)

    def _put(self, z):
        for i, slot in enumerate(self._slots):
            steps = slot.steps if z is None else slot.steps + self.options.mu * z[i]
            self._graph.constants[slot.index] = (steps * slot.scale).reshape(slot.shape)

    def _loss(self, data, y):
        logits = np.asarray(self._graph.run(data), np.float64).reshape(len(y), -1)
        logits -= logits.max(1, keepdims=True)
        return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]))

    def evaluate(self, data, y):
        """(mean loss in nats, accuracy) of the float weights."""
        self._put(None)
        logits = np.asarray(self._graph.run(data)).reshape(len(y), -1)
        return self._loss(data, y), float(np.mean(logits.argmax(1) == y))

    def on_epoch_end(self, metrics):
        """Move the q scheduler."""
        if self._scheduler is not None:
            value = metrics["validation_loss"]
            value = metrics["train_loss"] if value is None else value
            self._scheduler_state = self._scheduler.update(value, self._scheduler_state)

    def statistics(self):
        """`q` and `lr`."""
        return {"q": self.q, "lr": self.options.lr}

    def state_dict(self):
        """Arrays and numbers for a resume."""
        state = {"step": self._step, "mean_square": self._mean_square}
        for i, slot in enumerate(self._slots):
            state[f"steps_{i}"], state[f"momentum_{i}"] = slot.steps, slot.momentum
        if self._scheduler_state is not None:
            state["scheduler"] = np.array(self._scheduler_state, np.float64)
        return state

    def load_state_dict(self, state):
        """Continue from `state_dict()`."""
        self._step, self._mean_square = int(state["step"]), float(state["mean_square"])
        for i, slot in enumerate(self._slots):
            slot.steps = np.array(state[f"steps_{i}"])
            slot.momentum = np.array(state[f"momentum_{i}"])
        if self._scheduler is not None:
            best, smoothed, stagnant, q = (float(v) for v in state["scheduler"])
            self._scheduler_state = QSchedulerState(best, smoothed, int(stagnant), int(q))

    def configuration(self):
        """Options a resumed run must share."""
        return {**dataclasses.asdict(self.options), "scheduler": self._scheduler is not None}

    def model_bytes(self):
        """The int8 flatbuffer with the float weights rounded to the nearest step."""
        for slot in self._slots:
            slot.write_back(self._interpreter)
        return self._interpreter.to_bytes()


class _FloatSlot:
    """A trainable tensor in units of its perturbation: real value = steps * scale."""

    def __init__(self, interpreter, item):
        codes = interpreter.suffix.read(item.tensor)
        self.index, self.shape, self.size = item.tensor, codes.shape, codes.size
        self.name, self.kind = item.name, item.kind
        self.unit = interpreter.perturbation_unit(item)
        scale = interpreter.weight_scale(item.name).astype(np.float32)
        if len(scale) > 1:
            axis = 3 if codes.ndim == 4 and codes.shape[0] == 1 else 0
            shape = [1] * codes.ndim
            shape[axis] = len(scale)
            scale = np.broadcast_to(scale.reshape(shape), codes.shape).ravel()
        self.scale = scale * self.unit
        self.steps = codes.ravel().astype(np.float32) / self.unit
        self.momentum = np.zeros(self.size, np.float32)

    def write_back(self, interpreter):
        codes = np.rint(self.steps * self.unit).reshape(self.shape)
        kind = np.int32 if self.kind == "bias" else np.int8
        limit = 2**31 - 128 if self.kind == "bias" else 127
        interpreter.suffix.write(self.index, np.clip(codes, -limit, limit).astype(kind))


def _signs(seed, step, k, block, size):
    z = np.zeros(size, np.int32)
    _native.zo_perturb(z, seed, step, k, block, 1)
    return z.astype(np.float32)
