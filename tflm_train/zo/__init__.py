"""Forward-only zeroth-order training: `ZoTrainer`, `qscheduler`, `replay`."""

from tflm_train.zo._options import ZoOptions
from tflm_train.zo._qscheduler import QScheduler, QSchedulerState, qscheduler
from tflm_train.zo._replay import ReplayLog, replay
from tflm_train.zo._trainer import ZoTrainer

__all__ = [
    "QScheduler",
    "QSchedulerState",
    "ReplayLog",
    "ZoOptions",
    "ZoTrainer",
    "qscheduler",
    "replay",
]
