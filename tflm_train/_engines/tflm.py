"""The `tflite-micro` wheel: the very kernels that run on a microcontroller, on the host."""

from tflite_micro.python.tflite_micro import runtime

from converters.errors import UnsupportedModelError
from tflm_train._engines.base import InMemoryEngine


class TflmEngine(InMemoryEngine):
    """TFLM with reference kernels."""

    name = "tflm"
    device_exact = True

    def _start(self):
        try:
            self._interpreter = runtime.Interpreter.from_bytes(self._raw)
        except RuntimeError as error:
            raise UnsupportedModelError(
                f"Expected a model whose ops TFLM knows, got: {error}"
            ) from error

    def _run_one(self, sample):
        for i, value in enumerate(sample):
            self._interpreter.set_input(value, i)
        self._interpreter.invoke()
        return [self._interpreter.get_output(i) for i in range(len(self.outputs))]
