"""`export --freeze`: pruned weights become zeros, and the file a plain int8 model."""

import logging

from converters.flatbuffer import load_bytes, op_name, read_model
from converters.metadata import add_metadata
from converters.priot_format import MASKED_OPS
from converters.priot_read import forward_rounding, read_net
from converters.priot_write import write_net

_log = logging.getLogger("tflm_train")


def runnable(raw):
    """The bytes themselves, or the frozen form of a model with masked operators.

    Engines run TFLite's own operators; the outputs are the same (see `freeze`).
    """
    model = read_model(raw)
    names = {op_name(model, op) for op in model.subgraphs[0].operators}
    return freeze(raw) if names & set(MASKED_OPS.values()) else raw


def freeze(raw):
    """Write a PRIOT, PRIOT-S or NITI model with builtin operators alone.

    Stock TFLM computes the same outputs as the masked model when the forward rounding is `tflm`.

    Args:
      raw: bytes (or a path) of a model converted with one of these methods.

    Returns:
      The bytes of a `.tflite` of CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, MAX_POOL_2D and
      RESHAPE, with labels and normalisation in the standard metadata.

    Raises:
      UnsupportedModelError: a model of another method.

    Example:
      >>> from converters.priot_freeze import freeze
      >>> plain = freeze(priot_model)  # doctest: +SKIP
    """
    net, info = read_net(load_bytes(raw))
    if forward_rounding(net) != "tflm":
        _log.warning(
            "freeze: the model rounds %r; TFLM rounds 'tflm', so some outputs will differ by 1",
            forward_rounding(net),
        )
    return add_metadata(
        write_net(net, info=info, frozen=True),
        labels=info.labels,
        normalization=info.normalization,
        description=net.description,
    )
