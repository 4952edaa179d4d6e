"""A whole training step in NumPy, the twin of the native `PriotNet`; slow, for checking only."""

import dataclasses

import numpy as np

from converters.priot_net import CONV_SIZES, DENSE_SIZES, POOL_SIZES
from tflm_train.priot import _reference as ref


@dataclasses.dataclass
class ReferenceLayer:
    """One layer: its description, parameters and what the last sample left behind."""

    kind: str
    sizes: dict
    relu: bool
    weights: np.ndarray | None = None
    bias: np.ndarray | None = None
    scores: np.ndarray | None = None
    scored: np.ndarray | None = None
    threshold: int = -64
    weight_exponent: int = 0
    forward_shift: int = 0
    backward_shift: int = 0
    update_shift: int = 0
    output: np.ndarray | None = None
    error: np.ndarray | None = None
    place: np.ndarray | None = None

    def effective(self):
        if self.scores is None:
            return self.weights
        scored = True if self.scored is None else self.scored
        return ref.masked(self.weights, self.scores, scored, self.threshold)


class ReferenceNet:
    """`PriotNet` in NumPy: same layer descriptions, same settings, same bits."""

    def __init__(self, specs, **settings):
        self.settings = {
            "forward": "tflm", "backward": "tflm", "update": "tflm", "masked_backward": True,
            "dynamic_forward": False, "dynamic_backward": False, "dynamic_update": False,
            "mu": 2, "input_exponent": -7, "seed": 0, **settings,
        }  # fmt: skip
        self.layers = []
        for kind, sizes, relu in specs:
            names = {"dense": DENSE_SIZES, "max_pool": POOL_SIZES}.get(kind, CONV_SIZES)
            self.layers.append(ReferenceLayer(kind, dict(zip(names, sizes, strict=True)), relu))
        self.step = 0

    def _weights(self):
        return [layer for layer in self.layers if layer.kind != "max_pool"]

    def _key(self, layer, use, step):
        return ref.rng_key(self.settings["seed"], step, self._weights().index(layer), use)

    def _shape_in(self, layer):
        s = layer.sizes
        if layer.kind == "dense":
            return (s["inputs"],)
        return (s["in_height"], s["in_width"], s.get("in_channels", s.get("channels")))

    def _kernel(self, layer, flat):
        s = layer.sizes
        if layer.kind == "dense":
            return flat.reshape(s["outputs"], s["inputs"])
        if layer.kind == "conv":
            return flat.reshape(s["out_channels"], s["kernel_height"], s["kernel_width"], -1)
        return flat.reshape(s["kernel_height"], s["kernel_width"], s["out_channels"])

    def forward(self, x, step):
        s = self.settings
        self.input = np.asarray(x, np.int64)
        exponent, value = s["input_exponent"], self.input
        for layer in self.layers:
            value = value.reshape(self._shape_in(layer))
            if layer.kind == "max_pool":
                value, layer.place = ref.max_pool(value, layer.sizes)
                layer.output = value
                continue
            w = self._kernel(layer, layer.effective().astype(np.int64))
            if layer.kind == "dense":
                sums = w @ value
            else:
                sums = {"conv": ref.conv, "depthwise": ref.depthwise}[layer.kind](
                    value, w, layer.sizes
                )
            if layer.bias is not None:
                sums = sums + layer.bias
            shift = layer.forward_shift
            if s["dynamic_forward"]:
                shift = max(ref.bit_length(sums) - 7, 0)
            low = 0 if layer.relu else -128
            key = self._key(layer, "forward", step)
            value = layer.output = ref.requantize(sums, shift, s["forward"], low, 127, key)
            exponent += layer.weight_exponent + shift
        self.exponent = exponent
        return value

    def train_step(self, samples):
        """One update from [(x, label)], as many samples as the batch."""
        first, batch = self.step, len(samples)
        together = batch > 1 or self.settings["dynamic_update"]
        sums = [0] * len(self.layers)
        for x, label in samples:
            self.forward(x, self.step)
            _, error = ref.cross_entropy_error(self.layers[-1].output, self.exponent, label)
            gradients = self._backward(error, self.step)
            for i, g in enumerate(gradients):
                if g is None:
                    continue
                if together:
                    sums[i] = sums[i] + g
                else:
                    self._update(self.layers[i], g, self.step)
            self.step += 1
        if together:
            for layer, g in zip(self.layers, sums, strict=True):
                if isinstance(g, np.ndarray):
                    self._update(layer, g, first)

    def _backward(self, error, step):
        s = self.settings
        gradients = [None] * len(self.layers)
        first = next(i for i, layer in enumerate(self.layers) if layer.weights is not None)
        for i in range(len(self.layers) - 1, first - 1, -1):
            layer = self.layers[i]
            if layer.relu:
                error = np.where(layer.output > 0, error.reshape(layer.output.shape), 0)
            layer.error = error = error.reshape(layer.output.shape)
            x = (self.layers[i - 1].output if i else self.input).reshape(self._shape_in(layer))
            if layer.kind == "max_pool":
                error = ref.max_pool_backward(error, layer.place, layer.sizes)
                continue
            gradients[i] = self._gradient(layer, x, error)
            if i == first:
                break
            used = layer.effective() if s["masked_backward"] else layer.weights
            w = self._kernel(layer, used.astype(np.int64))
            if layer.kind == "dense":
                sums = error @ w
            elif layer.kind == "conv":
                sums = ref.conv_backward(error, w, layer.sizes)
            else:
                sums = ref.depthwise_backward(error, w, layer.sizes)
            shift = layer.backward_shift
            if s["dynamic_backward"]:
                shift = max(ref.bit_length(sums) - 7, 0)
            key = self._key(layer, "backward", step)
            error = ref.requantize(sums, shift, s["backward"], key=key)
        return gradients

    def _gradient(self, layer, x, error):
        if layer.kind == "dense":
            return np.outer(error, x).ravel()
        if layer.kind == "conv":
            return ref.conv_gradient(x, error, layer.sizes).ravel()
        return ref.depthwise_gradient(x, error, layer.sizes).ravel()

    def _update(self, layer, gradient, step):
        s = self.settings
        values = gradient
        if layer.scores is not None:
            values = np.clip(layer.weights.astype(np.int64) * gradient, -(2**31), 2**31 - 1)
        shift = layer.update_shift
        if s["dynamic_update"]:
            counted = values if layer.scored is None else values[layer.scored]
            bits = ref.bit_length(counted)
            if bits == 0:
                return
            shift = max(bits - s["mu"], 0)
        change = ref.requantize(values, shift, s["update"], key=self._key(layer, "update", step))
        if layer.scores is None:
            layer.weights = np.clip(layer.weights - change, -127, 127)
            return
        if layer.scored is not None:
            change = np.where(layer.scored, change, 0)
        layer.scores = np.clip(layer.scores - change, -128, 127)
