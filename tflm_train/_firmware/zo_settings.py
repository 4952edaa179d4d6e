"""From the host trainer's options to the integers that generated firmware holds."""

import math

from converters.c_source_zo import ZoSettings, ZoTensorSettings
from converters.errors import UnsupportedModelError
from tflm_train.zo import ZoOptions, qscheduler
from tflm_train.zo._loss import NATS, loss_multiplier
from tflm_train.zo._options import ESTIMATORS


def zo_settings(interpreter, *, batch=1, scheduler=None, **options):
    """The `ZoSettings` whose device run has the bits of `ZoTrainer(interpreter, **options)`.

    Args:
      interpreter: an `Interpreter` of the model.
      batch: samples of a step.
      scheduler: keyword arguments of `qscheduler`, or None. `tau` is in the device's metric: the
        sum of integer losses, or the number of right answers.
      **options: fields of `ZoOptions`.

    Raises:
      ValueError: an option out of its range.
      UnsupportedModelError: an option that needs a float unit on the device.
    """
    options = ZoOptions(**options)
    if options.update == "float_shadow":
        raise UnsupportedModelError(
            "Expected update stochastic or int16_shadow on a device, got float_shadow"
        )
    if options.normalize == "raw" and options.decay != "constant":
        raise UnsupportedModelError(
            "Expected decay constant with normalize raw on a device, got cosine"
        )
    if not 1 <= batch <= 1024:
        raise ValueError(f"Expected a batch of 1 to 1024, got {batch}")
    levels, schedule = _levels(options, scheduler)
    return ZoSettings(
        tensors=tuple(
            ZoTensorSettings(
                item.tensor,
                interpreter.perturbation_unit(item),
                1 << 30 if item.kind == "bias" else 127 - options.mu,
            )
            for item in interpreter.trainable
        ),
        rates=tuple(_rate(options, q, levels[0], batch) for q in levels),
        loss_multiplier=loss_multiplier(interpreter.logits_spec.scale),
        seed=options.seed,
        mu=options.mu,
        estimator=ESTIMATORS.index(options.estimator),
        rms=options.normalize == "rms",
        beta_q8=min(255, round(options.momentum * 256)),
        update=options.update,
        total_steps=options.total_steps if options.decay == "cosine" else 0,
        batch=batch,
        **schedule,
    )


def _levels(options, scheduler):
    """Every q the run can have, in order, and the schedule's integers."""
    if scheduler is None:
        return [options.q], {}
    if scheduler.get("smoothing"):
        raise UnsupportedModelError(
            f"Expected smoothing 0 on a device, got {scheduler['smoothing']}"
        )
    tau = scheduler.get("tau", 0)
    if tau != int(tau):
        raise UnsupportedModelError(f"Expected a whole tau on a device, got {tau}")
    patience = scheduler.get("patience", 5)
    climb = qscheduler(**{**scheduler, "patience": 1, "tau": 0})
    state = climb.update(0.0, climb.init())
    levels = [state.q]
    while True:
        state = climb.update(0.0, state)
        if state.q == levels[-1]:
            break
        levels.append(state.q)
    if len(levels) > 16:
        raise UnsupportedModelError(
            f"Expected at most 16 values of q on a device, got {len(levels)}: a larger alpha"
        )
    maximize = scheduler.get("metric", "loss") == "accuracy"
    return levels, {"patience": patience, "tau": int(tau), "maximize": maximize}


def _rate(options, q, first, batch):
    ratio = q / first
    growth = {"constant": 1.0, "sqrt": math.sqrt(ratio), "linear": ratio}[options.lr_per_q]
    lr_q16 = min(1 << 24, round(options.lr * growth * 65536)) if options.normalize == "rms" else 0
    multiplier = 0
    if options.normalize == "raw":
        per_unit = NATS * 65536 / (batch * q * options.mu)
        multiplier = round(options.lr * growth * per_unit * 2**28)
        if multiplier >= 2**32:
            raise ValueError(
                f"Expected a raw lr that moves a weight less than {2**20} steps per unit of loss, "
                f"got {options.lr}: lower lr or use normalize='rms'"
            )
    return q, lr_q16, multiplier
