"""The net of the integer-only methods: a chain of layers with int8 parameters and fixed shifts."""

import dataclasses

import numpy as np

ROUNDINGS = ("half_up", "half_away", "pseudo_stochastic", "stochastic", "tflm")

# Sizes of a description, in the order of the native structs (micro_ops/core/niti_layers.h).
CONV_SIZES = (
    "in_height", "in_width", "in_channels", "out_height", "out_width", "out_channels",
    "kernel_height", "kernel_width", "stride_height", "stride_width", "pad_top", "pad_left",
)  # fmt: skip
POOL_SIZES = (
    "in_height", "in_width", "channels", "out_height", "out_width", "filter_height",
    "filter_width", "stride_height", "stride_width", "pad_top", "pad_left",
)  # fmt: skip
DENSE_SIZES = ("inputs", "outputs")


@dataclasses.dataclass
class PriotLayer:
    """One layer: conv, depthwise, dense or max_pool.

    Attributes:
      kind: `conv`, `depthwise`, `dense` or `max_pool`.
      sizes: its sizes by name (CONV_SIZES, DENSE_SIZES or POOL_SIZES).
      name: the Keras layer's name.
      relu: whether negative outputs become 0.
      same: TFLite padding SAME rather than VALID.
      kernel: float weights in TFLite's layout, until they are quantised.
      weights: int8, flat: [out][kh][kw][in], depthwise [kh][kw][out], dense [out][in].
      bias: frozen int32 in the accumulators' scale, or None.
      exponent: of the weights, real = code * 2^exponent.
      scores: int8 per edge, or None for a layer whose weights train (NITI).
      scored: bool per edge, or None when every edge has a score.
      threshold: edges with a lower score are pruned.
      forward_shift: shift of the outputs.
      backward_shift: shift of the error that goes to the layer below.
      gradient_bits: usual bit length of the update before its shift, which is
        max(gradient_bits - mu, 0).
    """

    kind: str
    sizes: dict
    name: str
    relu: bool = False
    same: bool = True
    kernel: np.ndarray | None = None
    float_bias: np.ndarray | None = None
    weights: np.ndarray | None = None
    bias: np.ndarray | None = None
    exponent: int = 0
    scores: np.ndarray | None = None
    scored: np.ndarray | None = None
    threshold: int = -64
    forward_shift: int = 0
    backward_shift: int = 0
    gradient_bits: int = 0

    @property
    def has_weights(self):
        return self.kind != "max_pool"

    @property
    def in_size(self):
        s = self.sizes
        if self.kind == "dense":
            return s["inputs"]
        channels = s["channels" if self.kind == "max_pool" else "in_channels"]
        return s["in_height"] * s["in_width"] * channels

    @property
    def out_shape(self):
        s = self.sizes
        if self.kind == "dense":
            return (s["outputs"],)
        channels = s["channels" if self.kind == "max_pool" else "out_channels"]
        return (s["out_height"], s["out_width"], channels)

    @property
    def rows(self):
        """Output channels; a depthwise layer is one row."""
        return {"dense": self.sizes.get("outputs"), "conv": self.sizes.get("out_channels")}.get(
            self.kind, 1
        )

    @property
    def row_size(self):
        """Edges of one row."""
        s = self.sizes
        if self.kind == "dense":
            return s["inputs"]
        window = s["kernel_height"] * s["kernel_width"]
        return window * s["in_channels" if self.kind == "conv" else "out_channels"]

    def spec(self):
        """What `_native.PriotNet` takes."""
        return self.kind, [int(v) for v in self.sizes.values()], self.relu

    def effective(self):
        """Weights that take part: an edge without a score is never pruned."""
        if self.scores is None:
            return self.weights
        pruned = self.scores < self.threshold
        if self.scored is not None:
            pruned &= self.scored
        return np.where(pruned, 0, self.weights).astype(np.int8)


@dataclasses.dataclass
class PriotNet:
    """A chain of layers between an int8 image and int8 logits.

    Attributes:
      layers: in order.
      input_shape: without the batch.
      input_name: name of the input.
      input_exponent: real = code * 2^exponent.
      method: `priot`, `priot-s` or `niti`.
      description: one line about the model, or None.
      options: method options stored in the file: mu, rounding, masked_backward ...
    """

    layers: list
    input_shape: tuple
    input_name: str = "input"
    input_exponent: int = -7
    method: str = "priot"
    options: dict = dataclasses.field(default_factory=dict)
    description: str | None = None

    def weighted(self):
        """The layers with weights."""
        return [layer for layer in self.layers if layer.has_weights]

    def exponents(self):
        """Exponent of each layer's output under the static shifts."""
        exponent, result = self.input_exponent, []
        for layer in self.layers:
            if layer.has_weights:
                exponent += layer.exponent + layer.forward_shift
            result.append(exponent)
        return result


def conv_sizes(shape, kernel, stride, out_channels, same):
    """Sizes of a convolution with TFLite's padding rules."""
    (oh, top), (ow, left) = (
        _axis(size, k, s, same) for size, k, s in zip(shape[:2], kernel, stride, strict=True)
    )
    return dict(
        zip(CONV_SIZES, (*shape, oh, ow, out_channels, *kernel, *stride, top, left), strict=True)
    )


def pool_sizes(shape, window, stride, same):
    """Sizes of a pool with TFLite's padding rules."""
    (oh, top), (ow, left) = (
        _axis(size, k, s, same) for size, k, s in zip(shape[:2], window, stride, strict=True)
    )
    return dict(zip(POOL_SIZES, (*shape, oh, ow, *window, *stride, top, left), strict=True))


def _axis(size, kernel, stride, same):
    if not same:
        return (size - kernel) // stride + 1, 0
    out = -(-size // stride)
    return out, max((out - 1) * stride + kernel - size, 0) // 2


def quantize_weights(net):
    """Fill int8 weights and their exponents, one power of two per tensor."""
    for layer in net.weighted():
        largest = float(np.max(np.abs(layer.kernel), initial=0.0))
        layer.exponent = int(np.ceil(np.log2(largest / 127))) if largest > 0 else -7
        codes = np.rint(layer.kernel / 2.0**layer.exponent)
        layer.weights = np.clip(codes, -127, 127).astype(np.int8).ravel()


def quantize_biases(net):
    """int32 biases in each layer's accumulator scale; needs the shifts of the layers before."""
    exponent = net.input_exponent
    for layer in net.weighted():
        if layer.float_bias is not None and np.any(layer.float_bias):
            codes = np.rint(layer.float_bias / 2.0 ** (exponent + layer.exponent))
            layer.bias = np.clip(codes, -(2**30), 2**30).astype(np.int32)
        exponent += layer.exponent + layer.forward_shift
