"""What generated code of the integer-only methods is made from: chains of layers with settings."""

import dataclasses
import zlib

import numpy as np

from converters.errors import UnsupportedModelError

ROUNDINGS = ("half_up", "half_away", "pseudo_stochastic", "stochastic", "tflm")


@dataclasses.dataclass
class ChainLayer:
    """One layer.

    Attributes:
      kind: `conv`, `depthwise`, `dense` or `max_pool`.
      sizes: the integers of micro_ops/core's ConvShape, DenseShape or PoolShape, in order.
      relu: a ReLU follows.
      weights: int8 [edges]; None for a pool.
      bias: int32 [channels] or None.
      scores: int8 [edges] or None: the weights themselves train.
      scored: bool [edges], the edges that have a score; None: all.
      threshold: an edge with a score below is pruned.
      forward_shift, backward_shift: static shifts.
      update_shift: bits of the gradient less mu; below 0 it means 0 until a decay raises it.
      storage: how scores lie in memory: `dense`, `bitmask` or `index_list`.
    """

    kind: str
    sizes: list
    relu: bool = False
    weights: np.ndarray | None = None
    bias: np.ndarray | None = None
    scores: np.ndarray | None = None
    scored: np.ndarray | None = None
    threshold: int = -64
    weight_exponent: int = 0
    forward_shift: int = 0
    backward_shift: int = 0
    update_shift: int = 0
    storage: str = "dense"

    @property
    def in_size(self):
        """Values the layer reads."""
        return self.sizes[0] if self.kind == "dense" else int(np.prod(self.sizes[:3]))

    @property
    def out_size(self):
        """Values the layer writes."""
        if self.kind == "dense":
            return self.sizes[1]
        channels = self.sizes[2] if self.kind == "max_pool" else self.sizes[5]
        return self.sizes[3] * self.sizes[4] * channels

    @property
    def row_size(self):
        """Edges of one row of the weights."""
        if self.kind == "dense":
            return self.sizes[0]
        kernel = self.sizes[6] * self.sizes[7]
        return kernel * (self.sizes[5] if self.kind == "depthwise" else self.sizes[2])

    @property
    def scratch_kind(self):
        """`weights`, `dense` or `packed`: what the kernels see the weights through."""
        if self.scores is None:
            return "weights"
        return "dense" if self.storage == "dense" else "packed"


@dataclasses.dataclass
class Chain:
    """A chain of layers with the settings of its training.

    Attributes:
      method: `niti`, `priot` or `priot-s`.
      forward, backward, update: rounding modes by name.
      masked_backward: errors go through the masked weights (False: the paper's form).
      input_exponent: input real value = code * 2^input_exponent.
      seed: of stochastic rounding.
    """

    layers: list
    method: str = "priot"
    forward: str = "tflm"
    backward: str = "tflm"
    update: str = "tflm"
    masked_backward: bool = True
    input_exponent: int = -7
    seed: int = 0

    def logits_exponent(self):
        """Real logits = code * 2^this."""
        weighted = [layer for layer in self.layers if layer.weights is not None]
        return self.input_exponent + sum(n.weight_exponent + n.forward_shift for n in weighted)


def check_chain(chain):
    """Refuse what the generated code cannot do.

    Raises:
      UnsupportedModelError: the message names the layer and the way out.
    """
    layers = chain.layers
    if not layers or layers[-1].kind == "max_pool" or layers[-1].relu:
        raise UnsupportedModelError("Expected a last layer of weights without ReLU, got another")
    for before, layer in zip(layers, layers[1:], strict=False):
        if before.out_size != layer.in_size:
            raise UnsupportedModelError(
                f"Expected a chain of layers, got {before.out_size} values for a layer of "
                f"{layer.in_size}: only sequential models are trained by {chain.method}"
            )
    for number, layer in enumerate(layers):
        if layer.kind == "dense" and layer.sizes[0] > 65536:
            raise UnsupportedModelError(
                f"Expected dense layers of at most 65536 inputs, got layer {number} with "
                f"{layer.sizes[0]}"
            )
        if layer.kind == "conv" and layer.sizes[6] * layer.sizes[7] > 128:
            raise UnsupportedModelError(
                f"Expected convolution windows of at most 128 positions, got layer {number} with "
                f"{layer.sizes[6]} x {layer.sizes[7]}"
            )
        if layer.scored is not None and layer.storage == "dense":
            raise UnsupportedModelError(
                f"Expected storage bitmask or index_list for the sparse scores of layer {number}, "
                "got dense"
            )


def packed_scores(layer):
    """(scores int8, bitmask uint8 or None, indices uint16 or None, counts uint16 or None)."""
    scores = np.asarray(layer.scores, np.int8).ravel()
    if layer.storage == "dense":
        return scores, None, None, None
    scored = np.ones(scores.size, bool) if layer.scored is None else np.asarray(layer.scored, bool)
    scored = scored.ravel()
    packed = scores[scored]
    if layer.storage == "bitmask":
        return packed, np.packbits(scored, bitorder="little"), None, None
    rows = scored.reshape(-1, layer.row_size)
    places = [np.flatnonzero(row) for row in rows]
    counts = np.array([len(p) for p in places], np.uint16)
    return packed, None, np.concatenate(places).astype(np.uint16), counts


def trained_arrays(chain):
    """The arrays training changes, `[(field, values)]`, in the order of the state's CRC."""
    arrays = []
    for number, layer in enumerate(chain.layers):
        if layer.weights is None:
            continue
        if layer.scores is not None:
            arrays.append((f"scores{number}", packed_scores(layer)[0]))
        elif chain.method == "niti":
            arrays.append((f"weights{number}", np.asarray(layer.weights, np.int8).ravel()))
    return arrays


def chain_magic(chain):
    """A number that states of other models do not start with."""
    crc = zlib.crc32(chain.method.encode())
    for layer in chain.layers:
        crc = zlib.crc32(np.asarray(layer.sizes, "<i4").tobytes(), crc)
        if layer.weights is not None:
            crc = zlib.crc32(np.asarray(layer.weights, np.int8).tobytes(), crc)
    return crc
