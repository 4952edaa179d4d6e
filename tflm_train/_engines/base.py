"""What an engine offers, and the half of it that all flatbuffer-in-memory engines share."""

import abc
import ctypes
import dataclasses

import numpy as np

from converters.flatbuffer import NUMPY_TYPE, read_model, schema, tensor_name


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One tensor of the graph: `real = (int8 - zero_point) * scale`; shape includes the batch."""

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    scale: float
    zero_point: int

    def quantize(self, real):
        """Nearest int8 codes (half away from zero) of real values, clamped to -128..127."""
        steps = np.asarray(real, np.float64) / self.scale
        codes = np.trunc(steps + np.copysign(0.5, steps)) + self.zero_point
        return np.clip(codes, -128, 127).astype(np.int8)

    def dequantize(self, codes):
        """Real values of int8 codes as float32."""
        return ((np.asarray(codes, np.int32) - self.zero_point) * self.scale).astype(np.float32)


def tensor_spec(model, index):
    """The `TensorSpec` of a tensor of sub-graph 0 of a `schema.ModelT`."""
    tensor = model.subgraphs[0].tensors[index]
    quantization = tensor.quantization
    has_scale = quantization is not None and quantization.scale is not None
    has_scale = has_scale and len(quantization.scale) > 0
    return TensorSpec(
        index=int(index),
        name=tensor_name(tensor),
        shape=tuple(int(d) for d in tensor.shape) if tensor.shape is not None else (),
        dtype=np.dtype(NUMPY_TYPE[tensor.type]),
        scale=float(quantization.scale[0]) if has_scale else 1.0,
        zero_point=int(quantization.zeroPoint[0]) if has_scale else 0,
    )


class Engine(abc.ABC):
    """Runs one flatbuffer.

    `device_exact`: its bits are those of TFLM's reference kernels. `packs_weights`: it copies
    weights into a layout of its own when built, so it must never hold a trainable tensor.
    """

    name = ""
    device_exact = False
    packs_weights = False

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @abc.abstractmethod
    def run(self, feeds):
        """Outputs, a list of int8 arrays [n, ...], of a list of int8 arrays [n, ...]."""

    @abc.abstractmethod
    def read(self, index):
        """A copy of constant tensor `index`."""

    @abc.abstractmethod
    def write(self, index, values):
        """Replace constant tensor `index`; the next `run` uses it."""


class InMemoryEngine(Engine):
    """An interpreter that reads weights from the flatbuffer's bytes at every run.

    The bytes stay where they are for the interpreter's life, so writing a weight is writing there.
    """

    def __init__(self, raw):
        # A copy by way of a bytearray: the memory is written to, and must be nobody else's.
        self._raw = bytes(bytearray(raw))
        model = read_model(self._raw)
        graph = model.subgraphs[0]
        self.inputs = tuple(tensor_spec(model, i) for i in graph.inputs)
        self.outputs = tuple(tensor_spec(model, i) for i in graph.outputs)
        self._views = {}
        self._start()

    @abc.abstractmethod
    def _start(self):
        """Build the interpreter on `self._raw`."""

    @abc.abstractmethod
    def _run_one(self, sample):
        """Outputs [1, ...] of one sample, a list of arrays [1, ...]."""

    def run(self, feeds):
        count = len(feeds[0])
        results = [np.empty((count, *spec.shape[1:]), spec.dtype) for spec in self.outputs]
        for i in range(count):
            outputs = self._run_one([feed[i : i + 1] for feed in feeds])
            for result, output in zip(results, outputs, strict=True):
                result[i] = output[0]
        return results

    def read(self, index):
        return self._view(index).copy()

    def write(self, index, values):
        view = self._view(index)
        if values.shape != view.shape or values.dtype != view.dtype:
            raise ValueError(
                f"Expected {view.dtype}{view.shape} for tensor {index}, "
                f"got {values.dtype}{values.shape}"
            )
        view[...] = values

    def _view(self, index):
        if index not in self._views:
            graph = schema.Model.GetRootAs(self._raw, 0)
            tensor = graph.Subgraphs(0).Tensors(index)
            data = graph.Buffers(tensor.Buffer()).DataAsNumpy()
            if isinstance(data, int):
                raise ValueError(f"Expected a constant tensor, got activation {index}")
            memory = (ctypes.c_uint8 * data.size).from_address(data.ctypes.data)
            shape = () if isinstance(tensor.ShapeAsNumpy(), int) else tensor.ShapeAsNumpy()
            view = np.frombuffer(memory, NUMPY_TYPE[tensor.Type()]).reshape(shape)
            self._views[index] = view
        return self._views[index]
