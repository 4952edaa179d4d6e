"""Forward-only zeroth-order training of int8 weights."""

import dataclasses
import math

import numpy as np

from converters.errors import TrainingError
from tflm_train import _native
from tflm_train._method import Trainer
from tflm_train.zo._loss import make_loss
from tflm_train.zo._options import ESTIMATORS, ZoOptions, one_of
from tflm_train.zo._qscheduler import QScheduler, QSchedulerState
from tflm_train.zo._replay import ReplayLog
from tflm_train.zo._weights import TrainableWeights

_CONSTANT_LOSS_STEPS = 50


class ZoTrainer(Trainer):
    r"""Trains the suffix of an `Interpreter` with forward passes alone.

    For directions :math:`z_i \in \{-1, 1\}^n` a step measures
    :math:`\Delta L_i = L(w + \mu z_i) - L(w)` on one batch and moves the weights by
    :math:`-\eta \frac{1}{q} \sum_i \Delta L_i z_i / \mu`, with momentum. All of it is integer
    arithmetic, defined to the bit in docs/zo_arithmetic.md and equal on host and device.

    Args:
      interpreter: an `Interpreter`; its trainable weights are changed in place.
      scheduler: a `qscheduler(...)` that raises q after epochs without progress, or None.
      scheduler_metric: `loss` or `accuracy`, what the scheduler is told after each epoch.
      loss: `cross_entropy`, `squared_error`, or `loss(real_logits, targets) -> float`.
      **options: the fields of `ZoOptions`.

    Raises:
      ValueError: an option out of its range.
      TrainingError: weights without room for the perturbation.

    Example:
      >>> import numpy as np, tflm_train
      >>> from tflm_train.zo import ZoTrainer
      >>> interpreter = tflm_train.Interpreter("examples/models/mnist_cnn_int8.tflite")
      >>> trainer = ZoTrainer(interpreter, q=4, lr=0.3)
      >>> data = trainer.prepare(np.zeros((8, 28, 28, 1), np.uint8))
      >>> trainer.train_batch(data, np.zeros(8, np.int32))["q"]
      4

    References:
      QScheduler paper, Section III; MeZO for the replay by seeds.
    """

    method = "zo"

    def __init__(
        self,
        interpreter,
        *,
        scheduler=None,
        scheduler_metric="loss",
        loss="cross_entropy",
        **options,
    ):
        self.options = ZoOptions(**options)
        self._interpreter = interpreter
        self._engine = interpreter.suffix
        self._loss = make_loss(loss, interpreter.logits_spec)
        if scheduler is not None and not isinstance(scheduler, QScheduler):
            raise ValueError(f"Expected a qscheduler(...), got {scheduler!r}")
        one_of("scheduler_metric", scheduler_metric, ("loss", "accuracy"))
        self._scheduler = scheduler
        self._scheduler_metric = scheduler_metric
        self._scheduler_state = scheduler.init() if scheduler else None
        self._first_q = self.q
        self._items = interpreter.trainable
        if not self._items:
            raise TrainingError("Expected a model with trainable tensors, got none: convert it")
        self._units = [interpreter.perturbation_unit(item) for item in self._items]
        beta_q8 = min(255, round(self.options.momentum * 256))
        self._weights = TrainableWeights(
            self._engine,
            self._items,
            self._units,
            update=self.options.update,
            beta_q8=beta_q8,
            mu=self.options.mu,
        )
        self._mean_square = 0
        self._saturated = 0
        self._constant_steps = 0
        self.log = ReplayLog.start(interpreter, self.options, self._weights)

    # What the training loop calls ----------------------------------------------------------------

    @property
    def step(self):
        """Steps done."""
        return len(self.log)

    @property
    def q(self):
        """Directions of the next step."""
        return self._scheduler_state.q if self._scheduler else self.options.q

    def prepare(self, x):
        """Features of the suffix for data `x`: a list of int8 arrays [n, ...]."""
        return self._interpreter.features(x)

    def check_targets(self, y):
        """Targets in the loss's dtype; `DataError` when they do not fit the model."""
        return self._loss.check(y)

    def train_batch(self, data, y):
        """One step on features `data` and targets `y`.

        Returns:
          `loss` (mean, nats or squared units), `samples`, `q`.

        Raises:
          TrainingError: the loss is not finite; the weights are then those before the step.
        """
        q, count = self.q, len(data[0])
        base, plus, minus = self._losses(data, y, q)
        estimator = ESTIMATORS.index(self.options.estimator)
        d = _native.zo_differences(estimator, base or 0, plus, minus)
        rate = self._rate(q, count, self.step)
        if self.options.normalize == "rms":
            a, self._mean_square = _native.zo_coefficients_rms(d, rate, self._mean_square)
        else:
            a = _native.zo_coefficients_raw(d, rate)
        self._watch_constant_loss(d)
        self._saturated = self._weights.update(a, self.options.seed, self.step)
        self.log.append(a)
        mean = base if base is not None else sum(int(v) for v in plus) / q
        return {"loss": mean * self._loss.unit / count, "samples": count, "q": q}

    def train_chunk(self, data, y, indices, batch_size):
        """Steps over `indices` in batches; on the native engine without returning to Python."""
        if not self._native:
            return super().train_chunk(data, y, indices, batch_size)
        q = self.q
        sizes = [min(batch_size, len(indices) - i) for i in range(0, len(indices), batch_size)]
        rates = [self._rate(q, size, self.step + i) for i, size in enumerate(sizes)]
        slots = self._weights.slots
        trace = self._engine.core.zo_train(
            **self._native_arguments(data, y),
            first_step=self.step,
            q=q,
            indices=np.ascontiguousarray(indices, np.int32),
            batch_size=batch_size,
            normalize=self.options.normalize,
            rates=np.array(rates, np.uint32),
            beta_q8=self._weights.beta_q8,
            momentum=[slot.momentum for slot in slots],
            shadow=[slot.shadow for slot in slots],
            mean_square=self._mean_square,
        )
        self._mean_square = trace["mean_square"]
        self._saturated = trace["saturated"]
        directions = 1 if self.options.estimator == "one_sided" else q
        results = []
        for i, size in enumerate(sizes):
            self._watch_constant_loss(trace["differences"][i])
            self.log.append(trace["coefficients"][i])
            mean = int(trace["losses"][i]) / directions * self._loss.unit / size
            results.append({"loss": mean, "samples": size, "q": q})
        return results

    def evaluate(self, data, y):
        """(mean loss, accuracy) over features `data`; accuracy is None for squared error."""
        logits = self._engine.run(data)[0]
        loss = self._loss.total(logits, y) * self._loss.unit / len(logits)
        if self._loss.name == "squared_error":
            return loss, None
        return loss, float(np.mean(logits.reshape(len(logits), -1).argmax(1) == y))

    def on_epoch_end(self, metrics):
        """Tell the scheduler the validation metric (the training loss without validation data)."""
        if self._scheduler is None:
            return
        value = metrics.get(f"validation_{self._scheduler_metric}")
        if value is None:
            value = metrics.get(f"train_{self._scheduler_metric}")
        if value is None:
            raise TrainingError(
                f"Expected a {self._scheduler_metric} for the scheduler, got none: give "
                "validation data"
            )
        self._scheduler_state = self._scheduler.update(value, self._scheduler_state)

    def statistics(self):
        """`q`, `lr`, share of weights `changed` and `saturated` (at their limit)."""
        lr = self.options.lr * self._growth(self.q)
        return {
            "q": self.q,
            "lr": lr * self._decay_q24(self.step) / (1 << 24),
            "changed": self._weights.changed() / self._weights.size,
            "saturated": self._saturated / self._weights.size,
        }

    def state_dict(self):
        """Arrays and numbers from which `load_state_dict` continues bit for bit."""
        state = self._weights.state_dict()
        state.update(self.log.state_dict())
        # As text: the state is 64 bits, and not every number format holds them.
        state["mean_square"] = str(self._mean_square)
        state["constant_steps"] = self._constant_steps
        state["saturated"] = self._saturated
        if self._scheduler_state is not None:
            state["scheduler"] = np.array(self._scheduler_state, np.float64)
        return state

    def load_state_dict(self, state):
        """Continue from `state_dict()` of a trainer with the same model and options."""
        self._weights.load_state_dict(state)
        self.log.load_state_dict(state)
        self._mean_square = int(str(state["mean_square"]))
        self._constant_steps = int(state["constant_steps"])
        self._saturated = int(state["saturated"])
        if self._scheduler is not None:
            best, smoothed, stagnant, q = (float(v) for v in state["scheduler"])
            self._scheduler_state = QSchedulerState(best, smoothed, int(stagnant), int(q))

    def configuration(self):
        """Everything a resumed run must share with the first one."""
        config = dataclasses.asdict(self.options)
        config["loss"] = self._loss.name
        config["scheduler"] = self._scheduler is not None
        return config

    def model_bytes(self):
        """The flatbuffer with the weights as they are now."""
        return self._interpreter.to_bytes()

    @property
    def _native(self):
        return self._engine.name == "native" and self._loss.name != "callable"

    # Parts of a step -----------------------------------------------------------------------------

    def _losses(self, data, y, q):
        """(base or None, plus int64 [q], minus int64 [q] or None), weights as before."""
        options = self.options
        if self._native:
            return self._engine.core.zo_losses(
                **self._native_arguments(data, y), step=self.step, q=q
            )
        before = self._weights.read()
        try:
            base = None
            if options.estimator == "one_sided":
                base = self._total(data, y)
            plus = np.empty(q, np.int64)
            minus = np.empty(q, np.int64) if options.estimator == "two_sided" else None
            for k in range(q):
                self._weights.perturbed(before, options.seed, self.step, k, options.mu)
                plus[k] = self._total(data, y)
                if minus is not None:
                    self._weights.perturbed(before, options.seed, self.step, k, -options.mu)
                    minus[k] = self._total(data, y)
        except TrainingError as error:
            raise TrainingError(
                f"step {self.step}: {error}; the weights are those before this step"
            ) from error
        finally:
            self._weights.write(before)
        return base, plus, minus

    def _native_arguments(self, data, y):
        spec = self._interpreter.logits_spec
        return {
            "feeds": {
                s.index: np.ascontiguousarray(d)
                for s, d in zip(self._engine.inputs, data, strict=True)
            },
            "first_op": 0,
            "logits_index": spec.index,
            "targets": y,
            "loss": self._loss.name,
            "mult": getattr(self._loss, "mult", 1),
            "trainable": [(s.index, s.unit, s.limit) for s in self._weights.slots],
            "seed": self.options.seed,
            "mu": self.options.mu,
            "estimator": self.options.estimator,
        }

    def _total(self, data, y):
        return self._loss.total(self._engine.run(data)[0], y)

    def _growth(self, q):
        ratio = q / self._first_q
        return {"constant": 1.0, "sqrt": math.sqrt(ratio), "linear": ratio}[self.options.lr_per_q]

    def _rate(self, q, count, step):
        """What multiplies the differences of a step: lr * 2^16 (`rms`) or the raw multiplier."""
        rate = self.options.lr * self._growth(q)
        if self.options.normalize == "rms":
            lr_q16 = min(1 << 24, round(rate * 65536))
            if self.options.decay == "cosine":
                return _native.zo_cosine_decay(lr_q16, step, self.options.total_steps)
            return lr_q16
        # lr * dL/dw with dL in the loss's real unit per sample, as a coefficient of 2^-16 steps.
        per_unit = self._loss.unit * 65536 / (count * q * self.options.mu)
        multiplier = round(rate * self._decay_q24(step) / (1 << 24) * per_unit * 2**28)
        if multiplier >= 2**32:
            raise TrainingError(
                f"Expected a raw lr that moves a weight less than {2**20} steps per unit of loss, "
                f"got {self.options.lr}: lower lr or use normalize='rms'"
            )
        return multiplier

    def _decay_q24(self, step):
        if self.options.decay == "constant":
            return 1 << 24
        return _native.zo_cosine_decay(1 << 24, step, self.options.total_steps)

    def _watch_constant_loss(self, d):
        self._constant_steps = 0 if np.any(d) else self._constant_steps + 1
        if self._constant_steps == _CONSTANT_LOSS_STEPS:
            self.warn(
                f"the loss did not change under any perturbation for {_CONSTANT_LOSS_STEPS} steps: "
                "the output is saturated, or the perturbed layer has no influence on it; nothing "
                "is being learnt"
            )
