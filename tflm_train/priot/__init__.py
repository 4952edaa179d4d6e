"""Integer-only training: PRIOT, PRIOT-S, NITI and edge-popup."""

from tflm_train.priot._options import PriotOptions
from tflm_train.priot._trainer import PriotTrainer

__all__ = ["PriotOptions", "PriotTrainer"]
