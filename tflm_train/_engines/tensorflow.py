"""TensorFlow's own `tf.lite` reference kernels, an oracle rather than a work-horse."""

import tensorflow as tf

from tflm_train._engines.litert import _LiteRtEngine


class TensorFlowReferenceEngine(_LiteRtEngine):
    """`BUILTIN_REF` of the installed TensorFlow."""

    name = "tf-ref"

    def _make(self, raw):
        return tf.lite.Interpreter(
            model_content=raw,
            experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_REF,
            num_threads=1,
        )
