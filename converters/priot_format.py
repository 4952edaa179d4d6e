"""Custom operators of the masked inference graph: names and option bytes (docs/priot_format.md)."""

import dataclasses
import struct

import numpy as np

from converters.errors import ModelFormatError

MASKED_OPS = {
    "conv": "TFLM_TRAIN_MASKED_CONV_2D",
    "depthwise": "TFLM_TRAIN_MASKED_DEPTHWISE_CONV_2D",
    "dense": "TFLM_TRAIN_MASKED_FULLY_CONNECTED",
}
OPTIONS_VERSION = 1
STORAGES = ("dense", "bitmask", "index_list")
_LAYOUT = struct.Struct("<10i")


@dataclasses.dataclass(frozen=True)
class MaskedOptions:
    """Options of a masked operator: ten little-endian int32 after one another, version first.

    Attributes:
      shift: right shift of the accumulators.
      rounding: 0 half_up, 1 half_away, 2 pseudo_stochastic, 3 stochastic, 4 tflm.
      threshold: edges whose score is below it are pruned.
      storage: 0 a score per edge, 1 bitmask and packed scores, 2 index list and packed scores.
      activation: 0 none, 1 ReLU.
      stride_height: of the window, 0 for a dense layer; the next three likewise.
    """

    shift: int
    rounding: int
    threshold: int
    storage: int
    activation: int
    stride_height: int = 0
    stride_width: int = 0
    pad_top: int = 0
    pad_left: int = 0

    def pack(self):
        """The option bytes."""
        return _LAYOUT.pack(OPTIONS_VERSION, *dataclasses.astuple(self))

    @classmethod
    def unpack(cls, raw):
        """Read option bytes.

        Raises:
          ModelFormatError: another length, version or value range.
        """
        raw = bytes(raw)
        if len(raw) != _LAYOUT.size:
            raise ModelFormatError(
                f"Expected {_LAYOUT.size} option bytes of a masked operator, got {len(raw)}"
            )
        version, *values = _LAYOUT.unpack(raw)
        if version != OPTIONS_VERSION:
            raise ModelFormatError(
                f"Expected option version {OPTIONS_VERSION} of a masked operator, got {version}: "
                "upgrade tflm-train"
            )
        options = cls(*values)
        limits = {"shift": 31, "rounding": 4, "storage": 2, "activation": 1}
        for name, limit in limits.items():
            if not 0 <= getattr(options, name) <= limit:
                raise ModelFormatError(
                    f"Expected {name} from 0 to {limit} in a masked operator, got "
                    f"{getattr(options, name)}"
                )
        if not -128 <= options.threshold <= 127:
            raise ModelFormatError(
                f"Expected a threshold from -128 to 127, got {options.threshold}"
            )
        return options


def choose_storage(scored, rows, row_size):
    """The smallest storage of a set of scored edges: its number in STORAGES and its bytes."""
    if scored is None:
        return 0, rows * row_size
    count = int(np.count_nonzero(scored))
    if count == rows * row_size:
        return 0, count
    sizes = {1: count + -(-rows * row_size // 8)}
    if row_size <= 65536:
        sizes[2] = count + 2 * (count + rows)
    storage = min(sizes, key=lambda s: (sizes[s], s))
    return storage, sizes[storage]


def pack_scores(layer):
    """(storage, scores, scored tensor or None) of a layer, as the file and the device keep them."""
    storage, _ = choose_storage(layer.scored, layer.rows, layer.row_size)
    if storage == 0:
        return storage, layer.scores, None
    packed = layer.scores[layer.scored]
    if storage == 1:
        return storage, packed, np.packbits(layer.scored, bitorder="little")
    by_row = layer.scored.reshape(layer.rows, layer.row_size)
    counts = by_row.sum(1).astype(np.uint16)
    return storage, packed, np.concatenate([counts, np.nonzero(by_row)[1].astype(np.uint16)])


def unpack_scores(storage, scores, scored, rows, row_size, name):
    """(scores per edge, scored flags or None) from what `pack_scores` gave.

    Raises:
      ModelFormatError: the sizes do not fit each other.
    """
    size = rows * row_size
    if storage == 0:
        if len(scores) != size:
            raise ModelFormatError(f"Expected {size} scores for {name!r}, got {len(scores)}")
        return scores.copy(), None
    flags = np.zeros(size, bool)
    if storage == 1:
        if scored is None or len(scored) != -(-size // 8):
            raise ModelFormatError(f"Expected a bitmask of {-(-size // 8)} bytes for {name!r}")
        flags[:] = np.unpackbits(scored, bitorder="little", count=size).astype(bool)
    else:
        if scored is None or len(scored) != rows + len(scores):
            raise ModelFormatError(f"Expected {rows} counts and {len(scores)} places for {name!r}")
        counts, places = scored[:rows].astype(np.int64), scored[rows:].astype(np.int64)
        if counts.sum() != len(places) or np.any(places >= row_size):
            raise ModelFormatError(f"Expected places inside the rows of {name!r}")
        flags[np.repeat(np.arange(rows), counts) * row_size + places] = True
    if np.count_nonzero(flags) != len(scores):
        raise ModelFormatError(
            f"Expected {np.count_nonzero(flags)} packed scores for {name!r}, got {len(scores)}"
        )
    dense = np.zeros(size, np.int8)
    dense[flags] = scores
    return dense, flags
