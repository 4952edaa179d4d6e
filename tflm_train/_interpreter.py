"""The interpreter wrapper: an int8 model whose trainable weights change in place, never stale."""

import numpy as np

from converters import metadata
from converters.atomic import write_bytes_atomically
from converters.errors import DataError
from converters.flatbuffer import (
    constant,
    load_bytes,
    read_model,
    set_constant,
    tensor_name,
    write_model,
)
from converters.priot_freeze import runnable
from converters.training_info import read_training_info
from tflm_train import _engines
from tflm_train._canary import check_fresh
from tflm_train._cut import cut
from tflm_train._engines.base import tensor_spec
from tflm_train._features import compute_features
from tflm_train._trainable import check_int8, default_trainable, logits_index


class Interpreter:
    """Runs an int8 `.tflite` model and lets its trainable weights change in place.

    The model is split at its first trainable layer. The frozen prefix runs once per sample, and
    training re-runs the suffix only. At load, every trainable tensor is changed once and the result
    compared with a rebuilt model, so an engine that packs weights is refused instead of trained
    with in vain.

    Args:
      model: bytes or path of a fully-int8 TFLite model. Bytes are copied, never written to.
      engine: `native` (bit-exact with TFLM), `litert`, `litert-ref`, `tf-ref` or `tflm`.
      prefix_engine: engine of the frozen prefix, `engine` when None. `xnnpack` is faster on big
        models and not bit-exact with the device; `device_exact` then says so.

    Raises:
      ModelFormatError: damaged bytes.
      UnsupportedModelError: not fully int8, or an operator the engine does not know.
      StaleWeightsError: the engine computes with weights it packed earlier.

    Example:
      >>> import numpy as np, tflm_train
      >>> interpreter = tflm_train.Interpreter("examples/models/mnist_cnn_int8.tflite")
      >>> interpreter.predict(np.zeros((2, 28, 28, 1), np.uint8)).shape
      (2, 10)
    """

    def __init__(self, model, *, engine="native", prefix_engine=None):
        # A model with masked operators runs in its frozen form, which has the same outputs.
        raw = runnable(load_bytes(model))
        self._model = read_model(raw)
        self._appendix = metadata.appendix(raw)
        self.engine_name = engine
        self.prefix_engine_name = prefix_engine or engine
        check_int8(self._model)
        self.training_info = read_training_info(self._model)
        if self.training_info is not None and self.training_info.trainable:
            self.trainable = self.training_info.trainable
        else:
            self.trainable = default_trainable(self._model)
        self._logits = logits_index(self._model, self.training_info)
        self._start()

    def _start(self):
        graph = self._model.subgraphs[0]
        outputs = list(dict.fromkeys([self._logits, *(int(i) for i in graph.outputs)]))
        first = min((item.op for item in self.trainable), default=len(graph.operators))
        self._first_op = min(first, self._producer(self._logits))
        parts = cut(self._model, self._first_op, outputs)
        self._prefix = None
        if parts.prefix is not None:
            self._prefix = _engines.create(self.prefix_engine_name, parts.prefix)
        self._suffix_model = parts.suffix
        self._suffix = _engines.create(self.engine_name, parts.suffix)
        check_fresh(
            lambda raw: _engines.create(self.engine_name, raw),
            self._suffix,
            lambda changed: cut(self._changed(changed), self._first_op, outputs).suffix,
            [item.tensor for item in self.trainable],
        )

    def _producer(self, index):
        for number, op in enumerate(self._model.subgraphs[0].operators):
            if index in op.outputs:
                return number
        return 0

    # Properties -------------------------------------------------------------------------------

    @property
    def input_specs(self):
        """`TensorSpec` of every input: name, shape, scale, zero_point."""
        return tuple(tensor_spec(self._model, i) for i in self._model.subgraphs[0].inputs)

    @property
    def output_spec(self):
        """`TensorSpec` of the first output."""
        return tensor_spec(self._model, self._model.subgraphs[0].outputs[0])

    @property
    def logits_spec(self):
        """`TensorSpec` of the logits: the input of a final softmax, else the output."""
        return tensor_spec(self._model, self._logits)

    @property
    def device_exact(self):
        """True when every bit is the one TFLM's reference kernels compute on a device."""
        return self._suffix.device_exact and (self._prefix is None or self._prefix.device_exact)

    @property
    def suffix(self):
        """The engine that holds the trainable weights."""
        return self._suffix

    def suffix_bytes(self):
        """Flatbuffer of the suffix as it was at load; its output 0 is the logits."""
        return self._suffix_model

    # Running ----------------------------------------------------------------------------------

    def quantize(self, x):
        """Data as the calibration had it (any dtype but int8) to int8 [n, ...]; int8 passes.

        The model's stored normalisation is applied first. A missing batch axis is not added.

        Raises:
          DataError: another number of inputs or another shape than the model's.
        """
        parts = list(x) if isinstance(x, (list, tuple)) else [x]
        if len(parts) != len(self.input_specs):
            raise DataError(f"Expected {len(self.input_specs)} inputs, got {len(parts)}")
        return [
            self._quantize_one(spec, part)
            for spec, part in zip(self.input_specs, parts, strict=True)
        ]

    def _quantize_one(self, spec, part):
        part = np.asarray(part)
        if part.shape[1:] != spec.shape[1:] and (*part.shape[1:], 1) == spec.shape[1:]:
            part = part[..., None]
        if part.ndim != len(spec.shape) or part.shape[1:] != spec.shape[1:]:
            raise DataError(
                f"Expected samples of shape [n, {', '.join(map(str, spec.shape[1:]))}] for input "
                f"{spec.name!r}, got {list(part.shape)}: add the batch axis or resize the data"
            )
        if part.dtype == np.int8:
            return np.ascontiguousarray(part)
        # In chunks: a float64 copy of a whole image set is eight times its size.
        codes = np.empty(part.shape, np.int8)
        for begin in range(0, len(part), 1024):
            codes[begin : begin + 1024] = spec.quantize(
                self._normalized(part[begin : begin + 1024])
            )
        return codes

    def _normalized(self, part):
        part = np.asarray(part, np.float32)
        wrong = ~np.isfinite(part)
        if wrong.any():
            raise DataError(
                f"Expected finite values, got {part[wrong][0]} in sample {np.argwhere(wrong)[0][0]}"
            )
        normalization = self.training_info.normalization if self.training_info else {}
        if not normalization:
            return part
        return part * np.float32(normalization["scale"]) + np.float32(normalization["offset"])

    def features(self, x, *, cache_dir=None, progress=None):
        """Int8 inputs of the trainable suffix, a list of arrays [n, ...], computed once.

        Args:
          x: data as for `predict`.
          cache_dir: folder for memory-mapped files when the features are large; a temporary folder
            that goes with the arrays by default.
          progress: called with (samples done, samples in all).
        """
        inputs = self.quantize(x)
        if self._prefix is None:
            return inputs
        return compute_features(self._prefix, inputs, cache_dir=cache_dir, progress=progress)

    def run_suffix(self, features):
        """Int8 logits [n, classes] of features from `features`."""
        return self._suffix.run(features)[0]

    def logits_int8(self, x):
        """Int8 logits [n, classes]."""
        return self.run_suffix(self.features(x))

    def logits(self, x):
        """Logits as real values, float32 [n, classes]."""
        return self.logits_spec.dequantize(self.logits_int8(x))

    def predict(self, x):
        """The model's first output as real values, float32 [n, ...], like Keras' `predict`.

        Args:
          x: array [n, ...] of the calibration data's kind, or int8 codes; a list for several
            inputs.
        """
        outputs = self._suffix.run(self.features(x))
        index = int(self._model.subgraphs[0].outputs[0])
        order = [spec.index for spec in self._suffix.outputs]
        return self.output_spec.dequantize(outputs[order.index(index)])

    def dump(self, x):
        """All tensors of one sample, `{name: array}`: activations as int8 codes, and constants."""
        from tflm_train import _native

        inputs = self.quantize(x)
        engine = _native.Engine(self.to_bytes(), preserve_all=True)
        model = self._updated()
        tensors = model.subgraphs[0].tensors
        dumped = {i: constant(model, t) for i, t in enumerate(tensors)}
        dumped.update(engine.dump([part[:1] for part in inputs]))
        return {tensor_name(tensors[i]) or f"tensor_{i}": v for i, v in sorted(dumped.items())}

    # Weights ----------------------------------------------------------------------------------

    def perturbation_unit(self, item):
        """Steps of a trainable tensor that one perturbation of size 1 moves it by.

        1 for weights. A bias is finer than the output it is added to, so a bias moves by the
        number of its steps in one output step (node perturbation).
        """
        if item.kind != "bias":
            return 1
        graph = self._model.subgraphs[0]
        output = tensor_spec(self._model, graph.operators[item.op].outputs[0])
        scales = np.asarray(graph.tensors[item.tensor].quantization.scale, np.float64)
        return max(1, round(output.scale / float(np.median(scales))))

    @property
    def weight_names(self):
        """Names of all constant int8 and int32 tensors that operators read as data."""
        graph = self._model.subgraphs[0]
        return tuple(
            tensor_name(t)
            for t in graph.tensors
            if constant(self._model, t) is not None and t.quantization is not None
            and t.quantization.scale is not None and len(t.quantization.scale)
        )  # fmt: skip

    def weights(self, name):
        """A copy of a constant tensor, in TFLite's layout.

        Dense kernels are [out, in], convolutions [out, height, width, in], depthwise ones
        [1, height, width, out]. `name` is a tensor's name or the layer's of a trainable tensor.
        """
        index = self._find(name)
        if any(item.tensor == index for item in self.trainable):
            return self._suffix.read(index)
        return constant(self._model, self._model.subgraphs[0].tensors[index])

    def set_weights(self, name, values):
        """Replace a constant tensor; `set_weights(n, weights(n))` changes nothing.

        Raises:
          ValueError: another shape or dtype.
        """
        index = self._find(name)
        values = np.asarray(values)
        if any(item.tensor == index for item in self.trainable):
            self._suffix.write(index, values)
            return
        model = self._updated()
        set_constant(model, model.subgraphs[0].tensors[index], values)
        # A frozen tensor may sit in an engine that packs: build the engines again.
        self._model = model
        self._start()

    def weight_scale(self, name):
        """Scale(s) of a constant tensor: float64 array, one entry or one per output channel."""
        quantization = self._model.subgraphs[0].tensors[self._find(name)].quantization
        return np.asarray(quantization.scale, np.float64)

    def _find(self, name):
        for item in self.trainable:
            if name in (item.name, item.layer):
                return item.tensor
        for index, tensor in enumerate(self._model.subgraphs[0].tensors):
            if tensor_name(tensor) == name and constant(self._model, tensor) is not None:
                return index
        raise KeyError(f"Expected a name of {', '.join(self.weight_names)}; got {name!r}")

    # Saving -----------------------------------------------------------------------------------

    def to_bytes(self):
        """The flatbuffer with the weights as they are now; metadata and labels are kept."""
        return write_model(self._updated()) + self._appendix

    def save(self, path):
        """Write `to_bytes()` to `path`; an older file there stays whole until the new one is."""
        write_bytes_atomically(path, self.to_bytes())

    def _updated(self):
        return self._changed({i.tensor: self._suffix.read(i.tensor) for i in self.trainable})

    def _changed(self, values):
        # Parsing again is the cheapest deep copy of the containers; buffers are replaced whole.
        model = read_model(write_model(self._model))
        for index, value in values.items():
            set_constant(model, model.subgraphs[0].tensors[index], value)
        return model
