"""LiteRT (`ai-edge-litert`) as an engine: portable, close to the device, not bit-exact with it."""

from ai_edge_litert import interpreter as litert

from converters.errors import UnsupportedModelError
from tflm_train._engines.base import InMemoryEngine


class _LiteRtEngine(InMemoryEngine):
    resolver = None

    def _start(self):
        try:
            # num_threads above 1 collapses on the builtin resolver.
            self._interpreter = self._make(self._raw)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise UnsupportedModelError(
                f"Expected a model that {self.name} can run, got: {error}"
            ) from error

    def _make(self, raw):
        return litert.Interpreter(
            model_content=raw, experimental_op_resolver_type=self.resolver, num_threads=1
        )

    def _run_one(self, sample):
        for spec, value in zip(self.inputs, sample, strict=True):
            self._interpreter.set_tensor(spec.index, value)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(spec.index) for spec in self.outputs]


class LiteRtBuiltinEngine(_LiteRtEngine):
    """Optimised builtin kernels without delegates: reads weights at every run."""

    name = "litert"
    resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES


class LiteRtReferenceEngine(_LiteRtEngine):
    """Reference kernels."""

    name = "litert-ref"
    resolver = litert.OpResolverType.BUILTIN_REF


class XnnpackEngine(_LiteRtEngine):
    """XNNPACK: fastest, but packs weights at allocation, so for frozen prefixes only."""

    name = "xnnpack"
    packs_weights = True
    resolver = litert.OpResolverType.AUTO
