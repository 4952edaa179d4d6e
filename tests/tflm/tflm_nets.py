"""Small converted models with random parameters, and the host trainer as the programs' twin."""

import zlib

import numpy as np

from converters.priot_format import pack_scores
from converters.priot_net import PriotLayer, PriotNet, conv_sizes, pool_sizes
from converters.priot_write import write_net
from converters.training_info import TrainingInfo
from tflm_train.priot import PriotTrainer

CLASSES = 10
ROUNDINGS = ("rounding_forward", "rounding_backward", "rounding_update")


def layers_of(*, depthwise=False, overlap=False):
    """conv, pool, (depthwise,) conv of stride 2, dense, dense."""
    shape, made = (9, 10, 2), []

    def add(kind, sizes, out, **options):
        made.append(PriotLayer(kind, sizes, f"{kind}_{len(made)}", **options))
        return out

    def conv(kind, shape, channels, stride):
        sizes = conv_sizes(shape, (3, 3), (stride, stride), channels, True)
        return add(kind, sizes, (sizes["out_height"], sizes["out_width"], channels), relu=True)

    shape = conv("conv", shape, 5, 1)
    window = 3 if overlap else 2
    sizes = pool_sizes(shape, (window, window), (2, 2), False)
    shape = add("max_pool", sizes, (sizes["out_height"], sizes["out_width"], 5), same=False)
    if depthwise:
        shape = conv("depthwise", shape, 10, 1)
    shape = conv("conv", shape, 16, 2)
    size = int(np.prod(shape))
    add("dense", {"inputs": size, "outputs": 21}, (21,), relu=True)
    add("dense", {"inputs": 21, "outputs": CLASSES}, (CLASSES,))
    return made


def priot_model(
    *,
    method="priot",
    scored=1.0,
    rounding="tflm",
    masked=True,
    bias=False,
    dead=None,
    seed=1,
    **shape,
):
    """Bytes of a model with random weights and scores.

    `scored` is the share of edges with a score, `dead` the number of a layer that is pruned whole.
    """
    rng = np.random.default_rng(seed)
    net = PriotNet(layers_of(**shape), (9, 10, 2), method=method)
    net.options = dict.fromkeys(ROUNDINGS, rounding)
    net.options |= {"mu": 2, "mu_schedule": "constant", "masked_backward": masked, "seed": 0}
    for number, layer in enumerate(net.weighted()):
        size = layer.rows * layer.row_size
        layer.weights = rng.integers(-127, 128, size).astype(np.int8)
        layer.exponent = -9
        bits = int(np.ceil(np.log2(np.sqrt(layer.row_size) * 40 * 70)))
        layer.forward_shift = max(bits - 6, 0)
        layer.backward_shift = 7
        layer.gradient_bits = 18 if method != "niti" else 13
        if bias:
            layer.bias = rng.integers(-3000, 3000, layer.out_shape[-1]).astype(np.int32)
        if method != "niti":
            layer.threshold = -8
            layer.scores = rng.integers(-40, 41, size).astype(np.int8)
            if number == dead:
                layer.scores[:] = -128
            if scored < 1:
                layer.scored = rng.random(size) < scored
                layer.scores[~layer.scored] = 0
    return write_net(net, info=TrainingInfo())


class Twin:
    """PriotTrainer that answers a script line by line, as tests/tflm/train_steps.cc prints it."""

    def __init__(self, raw, *, seed=0):
        self._raw, self._seed, self._saved = raw, seed, None
        self.reset()

    def reset(self):
        self.trainer = PriotTrainer(self._raw, seed=self._seed, mu_schedule="constant")

    def learning_crc(self):
        """CRC-32 of the tensors that learn, as the device keeps them."""
        crc, core = 0, self.trainer._core
        for i, layer in self.trainer._weighted:
            if layer.scores is None:
                packed = core.get_weights(i)
            else:
                layer.scores = core.get_scores(i)
                packed = pack_scores(layer)[1].astype(np.int8)
            crc = zlib.crc32(packed.tobytes(), crc)
        return crc

    def line(self, sample, label, decay):
        """[label, status, guess, step, CRC of the logits, CRC of the learning tensors]."""
        core = self.trainer._core
        if label == -2:
            self.reset()
            return [label, 0, 0, 0, 0, 0]
        if label == -3:
            self._saved = self.trainer.state_dict()
            return [label, 0, 0, 0, 0, 0]
        if label == -4:
            self.trainer.load_state_dict(self._saved)
            return [label, 0, 0, 0, 0, self.learning_crc()]
        for i, layer in self.trainer._weighted:
            shift = min(max(layer.gradient_bits - max(2 - decay, 0), 0), 31)
            core.set_shifts(i, layer.exponent, layer.forward_shift, layer.backward_shift, shift)
        data = self.trainer.prepare(sample[None])
        if label < 0:
            # The device draws the random words of its step, evaluation those of a sample's number.
            data = [np.repeat(data[0], self.trainer.step + 1, axis=0)]
            logits = self.trainer.predict(data)[-1]
        else:
            self.trainer.train_batch(data, self.trainer.check_targets([label]))
            last = len(self.trainer.net.layers) - 1
            logits = core.output(last)
        return [label, 0, int(logits.argmax()), self.trainer.step, zlib.crc32(logits.tobytes()),
                self.learning_crc()]  # fmt: skip
