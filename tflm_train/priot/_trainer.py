"""PRIOT, PRIOT-S, NITI and edge-popup: training in integers alone."""

import dataclasses

import numpy as np

from converters.errors import DataError, UnsupportedModelError
from converters.flatbuffer import load_bytes
from converters.priot_net import ROUNDINGS
from converters.priot_read import read_net
from converters.priot_write import write_net
from tflm_train import _native
from tflm_train._method import Trainer
from tflm_train.priot._collapse import CollapseDetector
from tflm_train.priot._options import PriotOptions, mu_at
from tflm_train.priot._setup import initialise_scores, merge_options

_NEEDS = {"priot": ("priot",), "priot-s": ("priot-s",), "niti": ("niti",), "edge-popup": ("priot",)}


class PriotTrainer(Trainer):
    r"""Trains a model converted for an integer-only method, one sample at a time.

    PRIOT keeps the weights and moves a score per edge by :math:`S \leftarrow S - W \odot (e x^T)`,
    shifted to int8; edges whose score is below a threshold are pruned (PRIOT paper, Section III).
    PRIOT-S gives scores to a share of the edges only. NITI moves the weights themselves. All is
    integer arithmetic, defined to the bit in docs/priot_arithmetic.md.

    Args:
      model: bytes or path of a model from `convert` with method priot, priot-s or niti.
      portable: use the portable kernels even where AVX2 is there; same bits.
      **options: the fields of `PriotOptions`.

    Raises:
      UnsupportedModelError: a model of another method.
      ValueError: an option out of its range.

    Example:
      >>> from tflm_train.priot import PriotTrainer
      >>> trainer = PriotTrainer("model.tflite", mu=2)  # doctest: +SKIP
      >>> trainer.train_batch(trainer.prepare(images), labels)["correct"]  # doctest: +SKIP
      1

    References:
      PRIOT paper, Section III; NITI for the update; hidden-networks for edge-popup.
    """

    def __init__(self, model, *, portable=False, **options):
        self.options = PriotOptions(**options)
        self.net, self._info = read_net(load_bytes(model))
        self.method = self.options.method or self.net.method
        if self.net.method not in _NEEDS[self.method]:
            raise UnsupportedModelError(
                f"Expected a model converted with --method {_NEEDS[self.method][0]} to train with "
                f"{self.method}, got one for {self.net.method}: convert the Keras model again"
            )
        self._mu, self._schedule = merge_options(self.net, self.options)
        initialise_scores(self.net, self.options)
        self._core = _native.PriotNet([layer.spec() for layer in self.net.layers], portable)
        self._weighted = [(i, la) for i, la in enumerate(self.net.layers) if la.has_weights]
        self.epoch = 0
        self._detector = CollapseDetector()
        self._last = None
        self._configure()
        self._load_parameters()
        for _, layer in self._weighted:
            if layer.scores is not None and not np.any(layer.effective()):
                self._warn_pruned(layer.name)

    # What the training loop calls ----------------------------------------------------------------

    def prepare(self, x):
        """Images (raw data, or int8 codes) as one int8 array [n, size] in a list."""
        x = np.asarray(x[0] if isinstance(x, (list, tuple)) else x)
        size = int(np.prod(self.net.input_shape))
        if x.ndim < 2 or int(np.prod(x.shape[1:])) != size:
            raise DataError(
                f"Expected samples of shape [n, {', '.join(map(str, self.net.input_shape))}], got "
                f"{list(x.shape)}"
            )
        flat = x.reshape(len(x), size)
        if flat.dtype == np.int8:
            return [np.ascontiguousarray(flat)]
        codes = np.empty(flat.shape, np.int8)
        for begin in range(0, len(flat), 1024):
            codes[begin : begin + 1024] = self._quantize(flat[begin : begin + 1024])
        return [codes]

    def check_targets(self, y):
        """Labels as int32."""
        y = np.ascontiguousarray(np.asarray(y).ravel(), np.int32)
        classes = self.net.layers[-1].sizes["outputs"]
        if len(y) and not (0 <= y.min() and y.max() < classes):
            raise DataError(f"Expected labels from 0 to {classes - 1}, got {y.min()} to {y.max()}")
        return y

    def train_batch(self, data, y):
        """One step; returns `loss` (mean, nats), `samples`, `correct` and `zero_error`."""
        return self.train_chunk(data, y, np.arange(len(y)), len(y))[0]

    def train_chunk(self, data, y, indices, batch_size):
        """Steps over `indices` in batches without returning to Python."""
        order = np.ascontiguousarray(indices, np.int32)
        row = self._core.train(data[0], np.ascontiguousarray(y, np.int32), order, batch_size)
        self._detector.add(row, np.asarray(y)[order])
        return [{k: row[k] for k in ("loss", "samples", "correct", "zero_error")}]

    def evaluate(self, data, y):
        """(mean loss, accuracy)."""
        row = self._core.evaluate(
            data[0], np.ascontiguousarray(y, np.int32), self.options.average_every > 0
        )
        return row["loss"], row["correct"] / max(row["samples"], 1)

    def predict(self, data):
        """int8 logits [n, classes] of prepared data."""
        return self._core.predict(data[0])

    def statistics(self):
        """mu, and per layer: share pruned, scores that crossed, share of saturated values."""
        result = {"mu": self.mu}
        pruned = scored = 0
        for i, layer in self._weighted:
            s = self._core.statistics(i)
            if layer.scores is not None:
                result[f"pruned/{layer.name}"] = s["pruned"] / s["edges"]
                result[f"crossed/{layer.name}"] = s["crossed_down"] + s["crossed_up"]
                pruned, scored = pruned + s["pruned"], scored + s["edges"]
            result[f"saturated/{layer.name}"] = s["outputs_saturated"] / max(s["outputs_seen"], 1)
            result[f"errors_saturated/{layer.name}"] = s["errors_saturated"] / max(
                s["errors_seen"], 1
            )
            result[f"updates_saturated/{layer.name}"] = s["updates_saturated"] / max(
                s["updates"], 1
            )
        if scored:
            result["pruned"] = pruned / scored
        return result

    def on_epoch_end(self, metrics):
        """Next value of mu; warnings about collapse and layers that are pruned away."""
        layers = {layer.name: self._core.statistics(i) for i, layer in self._weighted}
        for name, row in layers.items():
            if row["pruned"] == row["edges"]:
                self._warn_pruned(name)
        message = self._detector.verdict(layers, self.net.layers[-1].sizes["outputs"])
        if message:
            self.warn(message)
        self._core.reset_statistics()
        self.epoch += 1
        self._set_shifts()

    @property
    def mu(self):
        """mu of the present epoch."""
        return mu_at(self._mu, self._schedule, self.epoch, self.options.epochs)

    @property
    def step(self):
        """Samples trained."""
        return self._core.step

    def state_dict(self):
        """Arrays and numbers from which `load_state_dict` continues bit for bit."""
        state = {"step": self._core.step, "epoch": self.epoch}
        for i, layer in self._weighted:
            if layer.scores is None:
                state[f"weights_{i}"] = self._core.get_weights(i)
            else:
                state[f"scores_{i}"] = self._core.get_scores(i)
                if layer.scored is not None:
                    state[f"scored_{i}"] = layer.scored.astype(np.uint8)
                if self.options.average_every:
                    state[f"average_{i}"] = self._core.get_average(i)
        return state

    def load_state_dict(self, state):
        """Continue from `state_dict()` of a trainer with the same model and options."""
        for i, layer in self._weighted:
            if layer.scores is None:
                layer.weights = np.asarray(state[f"weights_{i}"], np.int8)
            else:
                layer.scores = np.asarray(state[f"scores_{i}"], np.int8)
                if layer.scored is not None:
                    layer.scored = np.asarray(state[f"scored_{i}"]).astype(bool)
        self._load_parameters()
        for i, layer in self._weighted:
            if layer.scores is not None and self.options.average_every:
                self._core.set_average(i, np.asarray(state[f"average_{i}"], np.int16))
        self._core.step = int(state["step"])
        self.epoch = int(state["epoch"])
        self._detector.reset()
        self._core.reset_statistics()
        self._set_shifts()

    def configuration(self):
        """Options a resumed run must share with the first one."""
        config = dataclasses.asdict(self.options)
        config["method"] = self.method
        return {k: list(v) if isinstance(v, tuple) else v for k, v in config.items()}

    def model_bytes(self):
        """The flatbuffer with weights and scores as they are now."""
        for i, layer in self._weighted:
            if layer.scores is None:
                layer.weights = self._core.get_weights(i)
                continue
            layer.threshold = self._core.threshold(i)
            scores = self._core.get_scores(i)
            if self.options.average_every:
                average = self._core.get_average(i).astype(np.int32)
                scores = np.clip((average + 128) >> 8, -128, 127).astype(np.int8)
            layer.scores = np.where(layer.scored, scores, 0) if layer.scored is not None else scores
            layer.scores = layer.scores.astype(np.int8)
        return write_net(self.net, info=self._info)

    # Set-up --------------------------------------------------------------------------------------

    def _configure(self):
        found, given = self.net.options, self.options
        self._core.configure(
            {
                "forward": ROUNDINGS.index(found["rounding_forward"]),
                "backward": ROUNDINGS.index(found["rounding_backward"]),
                "update": ROUNDINGS.index(found["rounding_update"]),
                "masked_backward": bool(found["masked_backward"]),
                "dynamic_forward": given.dynamic,
                "dynamic_backward": given.dynamic,
                "dynamic_update": given.dynamic,
                "input_exponent": self.net.input_exponent,
                "kept_permille": round(given.kept * 1000) if self.method == "edge-popup" else 0,
                "average_every": given.average_every,
                "average_shift": given.average_shift,
                "seed": given.seed,
            }
        )
        self._set_shifts()

    def _set_shifts(self):
        mu = self.mu
        self._core.configure({"mu": mu})
        for i, layer in self._weighted:
            self._core.set_shifts(
                i,
                layer.exponent,
                layer.forward_shift,
                layer.backward_shift,
                min(max(layer.gradient_bits - mu, 0), 31),
            )

    def _load_parameters(self):
        none = np.zeros(0, np.uint8)
        for i, layer in self._weighted:
            self._core.set_weights(i, layer.weights)
            if layer.bias is not None:
                self._core.set_bias(i, layer.bias)
            if layer.scores is not None:
                scored = none if layer.scored is None else layer.scored.astype(np.uint8)
                self._core.set_scores(i, layer.scores, scored, layer.threshold)

    def _quantize(self, x):
        normalization = self._info.normalization
        x = x.astype(np.float32)
        if not np.all(np.isfinite(x)):
            raise DataError("Expected finite values, got NaN or infinity in the samples")
        if normalization:
            x = x * np.float32(normalization["scale"]) + np.float32(normalization["offset"])
        # Nearest code, half away from zero, as `Interpreter.quantize` does.
        steps = x.astype(np.float64) * 2.0**-self.net.input_exponent
        codes = np.trunc(steps + np.copysign(0.5, steps))
        return np.clip(codes, -128, 127).astype(np.int8)

    def _warn_pruned(self, name):
        self.warn(
            f"layer {name!r} is fully pruned: it puts out its requantised bias only and no error "
            "passes below it; raise its scores, lower mu, or start again"
        )
