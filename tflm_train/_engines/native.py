"""The native engine: `micro_ops` on the host, bit-exact with TFLM's reference kernels and fast."""

import numpy as np

from converters.errors import UnsupportedModelError
from converters.flatbuffer import read_model
from tflm_train import _native
from tflm_train._engines.base import Engine, tensor_spec


class NativeEngine(Engine):
    """Batches, in-place mutable weights, runs of any range of operators."""

    name = "native"
    device_exact = True

    def __init__(self, raw, *, threads=1):
        model = read_model(raw)
        try:
            self.core = _native.Engine(bytes(raw), threads=threads)
        except _native.ModelError as error:
            raise UnsupportedModelError(str(error)) from error
        graph = model.subgraphs[0]
        self.inputs = tuple(tensor_spec(model, i) for i in graph.inputs)
        self.outputs = tuple(tensor_spec(model, i) for i in graph.outputs)

    def run(self, feeds):
        feeds = {
            spec.index: np.ascontiguousarray(feed)
            for spec, feed in zip(self.inputs, feeds, strict=True)
        }
        fetch = [spec.index for spec in self.outputs]
        return self.core.run_range(0, self.core.num_ops, feeds, fetch)

    def read(self, index):
        return self.core.read_tensor(index)

    def write(self, index, values):
        self.core.write_tensor(index, np.ascontiguousarray(values))
