"""The training graph: one flatbuffer whose `Invoke()` in TFLM is one integer-only training step."""

import struct

import numpy as np

from converters.errors import ConversionError
from converters.flatbuffer import write_model
from converters.priot_format import MASKED_OPS, pack_scores
from converters.priot_net import ROUNDINGS
from converters.priot_read import read_net
from converters.priot_write import GraphWriter
from converters.training_info import TrainableTensor, TrainingInfo, write_training_info

METHOD = "train-graph"
STATE_WORDS = 8
GRADIENT_OPS = {
    "conv": "TFLM_TRAIN_CONV_2D_GRADIENT",
    "depthwise": "TFLM_TRAIN_DEPTHWISE_CONV_2D_GRADIENT",
    "dense": "TFLM_TRAIN_FULLY_CONNECTED_GRADIENT",
}
MAX_POOL, MAX_POOL_GRADIENT = "TFLM_TRAIN_MAX_POOL_2D", "TFLM_TRAIN_MAX_POOL_2D_GRADIENT"
CROSS_ENTROPY = "TFLM_TRAIN_CROSS_ENTROPY"
_WINDOW = ("stride_height", "stride_width", "pad_top", "pad_left")


def train_graph(raw, *, mu=None, seed=0):
    """The training graph of a model converted for PRIOT, PRIOT-S or NITI.

    Inputs are `x` and `label` (int32 [1]; -1: inference only); outputs the logits, the training
    state (int32 [8], micro_ops/tflm/train_state.h) and the tensors that learn, in layer order:
    scores, or weights for NITI. These are variables; their initial values stay in flash. One
    `Invoke()` is one step of `PriotTrainer` with batch 1, bit for bit.

    Args:
      raw: bytes or a path of a model from `convert_priot`, trained or not.
      mu: the largest entry of an update is about 2^mu; None: the file's.
      seed: of stochastic rounding; `PriotOptions.seed` of the host.

    Returns:
      The bytes of a `.tflite` file.

    Raises:
      UnsupportedModelError: a model of another method.
      ConversionError: an option out of range.

    Example:
      >>> raw = train_graph("model.tflite", mu=2)  # doctest: +SKIP
    """
    net, info = read_net(raw)
    mu = int(net.options.get("mu", 2)) if mu is None else mu
    if not isinstance(mu, int) or not 0 <= mu <= 7:
        raise ConversionError(f"Expected mu as an integer from 0 to 7, got {mu!r}")
    if not 0 <= seed < 2**32:
        raise ConversionError(f"Expected a seed from 0 to 2^32 - 1, got {seed}")
    return _Builder(net, mu, seed).build(info)


class _Builder:
    def __init__(self, net, mu, seed):
        self.net, self.mu, self.seed = net, mu, seed
        self.writer = GraphWriter(f"{net.method} training graph of tflm-train")
        # Per layer: tensors and options that the gradient reads again.
        self.inputs, self.places, self.layer_tensors = [], {}, {}
        self.learning = []

    def build(self, info):
        net, writer = self.net, self.writer
        first = next(i for i, layer in enumerate(net.layers) if layer.has_weights)
        x = writer.tensor(net.input_name, (1, *net.input_shape), exponent=net.input_exponent)
        label = writer.tensor("label", (1,), dtype=np.int32)
        self.state = self._variable("state", (STATE_WORDS,), np.int32)
        logits, exponent = self._forward(x)
        error = self._loss(logits, label, exponent)
        for index in range(len(net.layers) - 1, first - 1, -1):
            error = self._gradient(index, error, last=index == first)
        writer.graph.inputs = [x, label]
        writer.graph.outputs = [logits, self.state, *(t.tensor for t in self.learning)]
        done = TrainingInfo(
            method=METHOD,
            trainable=tuple(self.learning),
            calibrated=info.calibrated,
            calibration=info.calibration,
            options={**info.options, "scales": "power-of-two", "logits": logits},
            labels=info.labels,
            normalization=info.normalization,
            method_data={
                "version": 1,
                "method": net.method,
                "input_exponent": net.input_exponent,
                "options": {**net.options, "mu": self.mu, "seed": self.seed},
            },
        )
        write_training_info(writer.model, done)
        return write_model(writer.model)

    def _variable(self, name, shape, dtype, exponent=None):
        index = self.writer.tensor(name, shape, exponent=exponent, dtype=dtype)
        self.writer.graph.tensors[index].isVariable = True
        return index

    def _forward(self, current):
        shape, exponent, number = self.net.input_shape, self.net.input_exponent, 0
        for index, layer in enumerate(self.net.layers):
            self.inputs.append(current)
            shape = layer.out_shape
            if layer.kind == "max_pool":
                name = f"{layer.name}/max_pool_2d"
                out = self.writer.tensor(name, (1, *shape), exponent=exponent)
                self.places[index] = self.writer.tensor(
                    f"{layer.name}/places", (1, *shape), dtype=np.uint8
                )
                self.writer.operator(
                    MAX_POOL, [current], [out, self.places[index]], custom=_pool_options(layer)
                )
            else:
                scale = exponent
                exponent += layer.exponent + layer.forward_shift
                out = self._layer(index, layer, number, current, scale, exponent)
                number += 1
            current = out
        return current, exponent

    def _layer(self, index, layer, number, current, scale, exponent):
        s, writer = layer.sizes, self.writer
        window = (s.get("kernel_height"), s.get("kernel_width"))
        shape = {
            "conv": (s.get("out_channels"), *window, s.get("in_channels")),
            "depthwise": (1, *window, s.get("out_channels")),
            "dense": (s.get("outputs"), s.get("inputs")),
        }[layer.kind]
        out = writer.tensor(f"{layer.name}/output", (1, *layer.out_shape), exponent=exponent)
        bias = -1
        if layer.bias is not None:
            bias = writer.tensor(
                f"{layer.name}/bias",
                (layer.out_shape[-1],),
                values=layer.bias,
                exponent=scale + layer.exponent,
            )
        kernel = layer.weights.reshape(shape)
        scores = scored = -1
        storage = 0
        if layer.scores is None:
            weights = self._variable(f"{layer.name}/kernel", shape, np.int8, layer.exponent)
            initial = writer.tensor(
                f"{layer.name}/kernel_initial", shape, values=kernel, exponent=layer.exponent
            )
        else:
            weights = writer.tensor(
                f"{layer.name}/kernel", shape, values=kernel, exponent=layer.exponent
            )
            storage, packed, edges = pack_scores(layer)
            scores = self._variable(f"{layer.name}/scores", (len(packed),), np.int8)
            initial = writer.tensor(
                f"{layer.name}/scores_initial", (len(packed),), values=packed.astype(np.int8)
            )
            if edges is not None:
                scored = writer.tensor(f"{layer.name}/scored", (len(edges),), values=edges)
        options = (
            2,
            layer.forward_shift,
            ROUNDINGS.index(self.net.options.get("rounding_forward", "tflm")),
            layer.threshold,
            storage,
            int(layer.relu),
            *(s.get(k, 0) for k in _WINDOW),
            _signed(self.seed),
            number,
        )
        op = writer.operator(
            MASKED_OPS[layer.kind],
            [current, weights, bias, scores, scored, initial, self.state],
            [out],
            custom=struct.pack("<12i", *options),
        )
        self.layer_tensors[index] = (weights, scores, scored, storage, number)
        trains = "kernel" if scores < 0 else "scores"
        self.learning.append(
            TrainableTensor(
                tensor=weights if scores < 0 else scores,
                op=op,
                name=f"{layer.name}/{trains}",
                layer=layer.name,
                kind="weight" if scores < 0 else "score",
                limit=127,
            )
        )
        return out

    def _loss(self, logits, label, exponent):
        classes = self.net.layers[-1].sizes["outputs"]
        error = self.writer.tensor("error", (1, classes))
        self.writer.operator(
            CROSS_ENTROPY,
            [logits, label, self.state],
            [error],
            custom=struct.pack("<2i", 1, exponent),
        )
        return error

    def _gradient(self, index, error, *, last):
        layer, source = self.net.layers[index], self.inputs[index]
        below = None
        if not last:
            shape = self.writer.graph.tensors[source].shape
            below = self.writer.tensor(f"{layer.name}/error_in", shape)
        if layer.kind == "max_pool":
            self.writer.operator(
                MAX_POOL_GRADIENT,
                [error, self.places[index], self.state],
                [below],
                custom=_pool_options(layer),
            )
            return below
        weights, scores, scored, storage, number = self.layer_tensors[index]
        options, found = self.net.options, layer.sizes
        values = (
            1,
            storage,
            layer.threshold,
            layer.backward_shift,
            ROUNDINGS.index(options["rounding_backward"]),
            int(bool(options["masked_backward"]) and scores >= 0),
            int(self._relu_below(index)),
            layer.gradient_bits,
            self.mu,
            ROUNDINGS.index(options["rounding_update"]),
            *(found.get(k, 0) for k in _WINDOW),
            _signed(self.seed),
            number,
        )
        self.writer.operator(
            GRADIENT_OPS[layer.kind],
            [source, weights, scores, scored, error, self.state],
            [] if last else [below],
            custom=struct.pack("<16i", *values),
        )
        return below

    def _relu_below(self, index):
        """Whether the input is a ReLU's output, directly or through pools."""
        for layer in reversed(self.net.layers[:index]):
            if layer.kind != "max_pool":
                return layer.relu
        return False


def _pool_options(layer):
    names = ("filter_height", "filter_width", *_WINDOW)
    return struct.pack("<7i", 1, *(layer.sizes[k] for k in names))


def _signed(word):
    return word - 2**32 if word >= 2**31 else word
