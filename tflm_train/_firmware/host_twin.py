"""The host's trainers with the parameters of generated firmware, stepped beside it."""

import zlib

import numpy as np

from converters.c_source_chain import ROUNDINGS
from tflm_train import Interpreter, _native
from tflm_train.zo import ZoTrainer, qscheduler


def host_twin(raw, source, *, scheduler=None, mu=None, **options):
    """A twin with `codes`, `step`, `infer` and `crc`.

    Args:
      raw: the model's bytes.
      source: its `ChainSource` or `GraphSource`.
      scheduler, mu, **options: as `make_source` got them.
    """
    if hasattr(source, "chain"):
        return ChainTwin(Interpreter(raw), source.chain)
    for name in ("trains", "batch"):
        options.pop(name, None)
    return ZoTwin(raw, scheduler=scheduler, mu=1 if mu is None else mu, **options)


class ChainTwin:
    """The native trainer of the integer-only methods.

    Args:
      interpreter: knows how raw data become codes; None when codes are given.
      chain: the `Chain` that the firmware was made from.
    """

    def __init__(self, interpreter, chain):
        self._interpreter, self._chain = interpreter, chain
        self.method = chain.method
        layers = chain.layers
        self._net = _native.PriotNet([(n.kind, n.sizes, n.relu) for n in layers])
        self._net.configure({
            "forward": ROUNDINGS.index(chain.forward), "update": ROUNDINGS.index(chain.update),
            "backward": ROUNDINGS.index(chain.backward), "seed": chain.seed,
            "masked_backward": chain.masked_backward, "input_exponent": chain.input_exponent,
        })  # fmt: skip
        for i, layer in enumerate(layers):
            if layer.weights is None:
                continue
            self._net.set_shifts(
                i, layer.weight_exponent, layer.forward_shift, layer.backward_shift,
                min(max(layer.update_shift, 0), 31),
            )  # fmt: skip
            self._net.set_weights(i, layer.weights)
            if layer.bias is not None:
                self._net.set_bias(i, np.asarray(layer.bias, np.int32))
            if layer.scores is not None:
                scored = np.zeros(0, np.uint8)
                if layer.scored is not None:
                    scored = layer.scored.astype(np.uint8)
                self._net.set_scores(i, layer.scores, scored, layer.threshold)

    @property
    def net(self):
        """The `_native.PriotNet`."""
        return self._net

    def codes(self, x):
        """Int8 samples [n, values] of raw data."""
        return self._interpreter.quantize(x)[0].reshape(len(x), -1)

    def step(self, x, y):
        """One training step; returns its logits."""
        x, y = np.ascontiguousarray(x, np.int8), np.ascontiguousarray(y, np.int32)
        self._net.train(x, y, np.zeros(1, np.int32), 1)
        return self._net.output(len(self._chain.layers) - 1)

    def infer(self, x):
        """Int8 logits [n, classes]."""
        return self._net.predict(np.ascontiguousarray(x, np.int8))

    def crc(self):
        """CRC-32 of the trained tensors."""
        crc = 0
        for i, layer in enumerate(self._chain.layers):
            if layer.weights is None or (layer.scores is None and self.method != "niti"):
                continue
            if layer.scores is None:
                values = self._net.get_weights(i)
            else:
                values = self._net.get_scores(i)
                if layer.scored is not None:
                    values = values[np.asarray(layer.scored, bool).ravel()]
            crc = zlib.crc32(np.ascontiguousarray(values).tobytes(), crc)
        return crc


class ZoTwin:
    """The zeroth-order trainer."""

    method = "zo"

    def __init__(self, raw, *, scheduler=None, **options):
        self._interpreter = Interpreter(raw)
        self._trainer = ZoTrainer(
            self._interpreter,
            scheduler=qscheduler(**scheduler) if scheduler else None,
            **options,
        )

    def codes(self, x):
        """Int8 samples [n, values] of raw data."""
        return self._interpreter.quantize(x)[0].reshape(len(x), -1)

    def _features(self, x):
        shape = self._interpreter.input_specs[0].shape[1:]
        return self._interpreter.features(x.reshape(-1, *shape))

    def step(self, x, y):
        """One training step; its forward passes leave no logits to compare."""
        self._trainer.train_batch(self._features(x), y)

    def infer(self, x):
        """Int8 logits [n, classes] of the model's output."""
        suffix = self._interpreter.suffix
        outputs = dict(
            zip((s.index for s in suffix.outputs), suffix.run(self._features(x)), strict=True)
        )
        return outputs[self._interpreter.output_spec.index].reshape(len(x), -1)

    def crc(self):
        """CRC-32 of the trained tensors."""
        crc = 0
        for item in self._interpreter.trainable:
            crc = zlib.crc32(self._interpreter.suffix.read(item.tensor).tobytes(), crc)
        return crc
