"""Run a flatbuffer's operators in float32 on dequantised weights, for comparison with int8."""

import numpy as np

from converters.errors import UnsupportedModelError
from converters.flatbuffer import constant, op_name, schema, tensor_name

_Activation = schema.ActivationFunctionType


class FloatGraph:
    """The float twin of an int8 graph: same layers and layout, no rounding anywhere.

    Args:
      model: a `schema.ModelT` whose operators are all among `_OPS`.
      output: index of the tensor to return.

    Raises:
      UnsupportedModelError: an operator without a float twin here.
    """

    def __init__(self, model, output):
        import tensorflow as tf

        self._tf = tf
        graph = model.subgraphs[0]
        self._tensors = graph.tensors
        self._inputs = [int(i) for i in graph.inputs]
        self._output = int(output)
        self._steps = []
        for op in graph.operators:
            name = op_name(model, op)
            if name not in _OPS:
                raise UnsupportedModelError(
                    f"Expected operators of {', '.join(sorted(_OPS))} for the float twin, got "
                    f"{name} ({tensor_name(graph.tensors[op.outputs[0]])!r}): make fewer layers "
                    "trainable"
                )
            self._steps.append((_OPS[name], op))
            if self._output in op.outputs:
                break
        self.constants = {}
        for index, tensor in enumerate(graph.tensors):
            values = constant(model, tensor)
            if values is not None:
                self.constants[index] = dequantized(tensor, values)

    def run(self, feeds):
        """Float32 output [n, ...] of int8 feeds, a list of arrays [n, ...]."""
        values = dict(self.constants)
        for index, feed in zip(self._inputs, feeds, strict=True):
            values[index] = dequantized(self._tensors[index], feed)
        for function, op in self._steps:
            inputs = [values.get(int(i)) if i >= 0 else None for i in op.inputs]
            options = op.builtinOptions
            result = function(self._tf, inputs, options)
            fused = getattr(options, "fusedActivationFunction", _Activation.NONE)
            values[int(op.outputs[0])] = _activate(self._tf, result, fused)
        return np.asarray(values[self._output])


def dequantized(tensor, values):
    """Real values of a tensor's codes; a tensor without scales passes as it is."""
    quantization = tensor.quantization
    if quantization is None or quantization.scale is None or not len(quantization.scale):
        return values
    scale = np.asarray(quantization.scale, np.float32)
    point = np.asarray(quantization.zeroPoint, np.float32)
    if len(scale) > 1:
        shape = [1] * values.ndim
        shape[quantization.quantizedDimension] = len(scale)
        scale = scale.reshape(shape)
        point = point.reshape(shape) if len(point) > 1 else point
    return ((values.astype(np.float32) - point) * scale).astype(np.float32)


def _activate(tf, x, fused):
    if fused == _Activation.RELU:
        return tf.nn.relu(x)
    if fused == _Activation.RELU6:
        return tf.nn.relu6(x)
    return x


def _padding(options):
    return "SAME" if options.padding == schema.Padding.SAME else "VALID"


def _dense(tf, inputs, options):
    x, w, bias = (*inputs, None)[:3]
    y = tf.reshape(x, (len(x), -1)) @ tf.transpose(w)
    return y if bias is None else y + bias


def _conv(tf, inputs, options):
    x, w, bias = (*inputs, None)[:3]
    y = tf.nn.conv2d(
        x, tf.transpose(w, (1, 2, 3, 0)), (options.strideH, options.strideW), _padding(options),
        dilations=(options.dilationHFactor, options.dilationWFactor),
    )  # fmt: skip
    return y if bias is None else y + bias


def _depthwise(tf, inputs, options):
    x, w, bias = (*inputs, None)[:3]
    w = tf.reshape(w, (*w.shape[1:3], x.shape[-1], -1))
    y = tf.nn.depthwise_conv2d(
        x, w, (1, options.strideH, options.strideW, 1), _padding(options),
        dilations=(options.dilationHFactor, options.dilationWFactor),
    )  # fmt: skip
    return y if bias is None else y + bias


def _pool(kind):
    def run(tf, inputs, options):
        function = tf.nn.max_pool2d if kind == "max" else tf.nn.avg_pool2d
        window = (options.filterHeight, options.filterWidth)
        return function(inputs[0], window, (options.strideH, options.strideW), _padding(options))

    return run


_OPS = {
    "FULLY_CONNECTED": _dense,
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "MAX_POOL_2D": _pool("max"),
    "AVERAGE_POOL_2D": _pool("average"),
    "ADD": lambda tf, inputs, options: inputs[0] + inputs[1],
    "MUL": lambda tf, inputs, options: inputs[0] * inputs[1],
    "MEAN": lambda tf, inputs, options: tf.reduce_mean(
        inputs[0], tuple(int(a) for a in np.ravel(inputs[1])), keepdims=options.keepDims
    ),
    "RELU": lambda tf, inputs, options: tf.nn.relu(inputs[0]),
    "RELU6": lambda tf, inputs, options: tf.nn.relu6(inputs[0]),
    "LOGISTIC": lambda tf, inputs, options: tf.sigmoid(inputs[0]),
    "SOFTMAX": lambda tf, inputs, options: tf.nn.softmax(inputs[0]),
    # The constant shape holds batch 1; the batch is the data's.
    "RESHAPE": lambda tf, inputs, options: tf.reshape(
        inputs[0], (len(inputs[0]), *np.ravel(inputs[1])[1:])
    ),
}
