"""Engines that execute an int8 flatbuffer whose weights change in place.

Every engine owns a private copy of the bytes, runs batches of int8 samples and reads and writes
constant tensors. `create` refuses an engine that would go on with weights it packed earlier.
"""

import importlib
import logging

from converters.errors import UnsupportedModelError

_log = logging.getLogger(__name__)

# name: (module, class). Order is the order in which messages list them.
_ENGINES = {
    "native": ("tflm_train._engines.native", "NativeEngine"),
    "litert": ("tflm_train._engines.litert", "LiteRtBuiltinEngine"),
    "litert-ref": ("tflm_train._engines.litert", "LiteRtReferenceEngine"),
    "xnnpack": ("tflm_train._engines.litert", "XnnpackEngine"),
    "tf-ref": ("tflm_train._engines.tensorflow", "TensorFlowReferenceEngine"),
    "tflm": ("tflm_train._engines.tflm", "TflmEngine"),
}

ENGINE_NAMES = tuple(_ENGINES)


def create(name, raw):
    """Build engine `name` on a private copy of the flatbuffer `raw`.

    Raises:
      ValueError: no engine of that name.
      UnsupportedModelError: the engine cannot run this model, or its package is not installed.
    """
    if name not in _ENGINES:
        raise ValueError(f"Expected engine to be one of {', '.join(_ENGINES)}, got {name!r}")
    module, cls = _ENGINES[name]
    try:
        factory = getattr(importlib.import_module(module), cls)
    except ImportError as error:
        raise UnsupportedModelError(
            f"Expected the package behind engine {name!r} to be installed, got: {error}; "
            "choose another engine or install it (pip install 'tflm-train[tflm]' for tflm)"
        ) from error
    return factory(raw)
