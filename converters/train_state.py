"""Take over what a device has learnt: from the bytes of its checkpoint into the model."""

import struct

import numpy as np

from converters.errors import CheckpointError
from converters.priot_format import choose_storage
from converters.priot_read import read_net
from converters.priot_write import write_net

# micro_ops/tflm/train_state.h.
_STATE = struct.Struct("<8i")


def apply_state(raw, payload):
    """The model with the scores (or weights, NITI) that a device's training graph has reached.

    Args:
      raw: bytes or a path of the model that `train_graph` was given.
      payload: what the device saved, `CheckpointStore.load()[0]`: the training state, then the
        tensors that learn.

    Returns:
      (bytes of the model, steps the device has done).

    Raises:
      CheckpointError: bytes of another model.

    Example:
      >>> raw, steps = apply_state("model.tflite", payload)  # doctest: +SKIP
    """
    net, info = read_net(raw)
    sizes = [
        layer.weights.size if layer.scores is None else _packed_size(layer)
        for layer in net.weighted()
    ]
    if len(payload) != _STATE.size + sum(sizes):
        raise CheckpointError(
            f"Expected {_STATE.size + sum(sizes)} bytes for this model, got {len(payload)}: take "
            "the model that the device's training graph was made from"
        )
    started, steps = _STATE.unpack_from(payload)[:2]
    if not started:
        return write_net(net, info=info), 0
    values = np.frombuffer(payload, np.int8, offset=_STATE.size)
    for layer, part in zip(net.weighted(), np.split(values, np.cumsum(sizes)[:-1]), strict=True):
        if layer.scores is None:
            layer.weights = part.copy()
        elif layer.scored is None:
            layer.scores = part.copy()
        else:
            layer.scores = np.zeros(layer.scores.size, np.int8)
            layer.scores[layer.scored] = part
    return write_net(net, info=info), steps


def _packed_size(layer):
    storage, _ = choose_storage(layer.scored, layer.rows, layer.row_size)
    return layer.scores.size if storage == 0 else int(np.count_nonzero(layer.scored))
