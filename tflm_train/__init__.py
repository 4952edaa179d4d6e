"""Train fully-int8 TFLite models with the same bits on host and microcontroller.

The public names; each loads on first use, so that `import tflm_train` does not import TensorFlow.
"""

import importlib

__version__ = "0.1.0"

_PUBLIC = {
    "Interpreter": "tflm_train._interpreter",
    "TflmTrainError": "converters.errors",
    "convert": "converters",
    "early_stopping": "tflm_train._early_stopping",
    "fit": "tflm_train._loop",
    "load_dataset": "tflm_train.data",
    "three_stage": "converters",
}

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tflm_train' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_PUBLIC})
