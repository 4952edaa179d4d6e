"""Flatbuffers of one operator, built field by field, for tests of a kernel in every engine."""

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converters.flatbuffer import write_model

ACTIVATIONS = {"none": 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3}


class SingleOp:
    """Collects tensors, then writes a model of one operator.

    Example:
      >>> m = SingleOp("RELU")
      >>> x = m.activation([1, 4], 0.1, 0)
      >>> raw = m.build([x], m.activation([1, 4], 0.1, 0))
    """

    def __init__(self, name, **options):
        self.name = name
        self.options = options
        self.tensors = []
        self.buffers = [schema.BufferT()]

    def activation(self, shape, scale, zero_point, dtype="INT8"):
        """Index of a new activation."""
        return self._tensor(shape, dtype, [scale], [zero_point], 0, 0)

    def constant(self, values, scales=(), zero_points=None, dimension=0):
        """Index of a new constant with its data."""
        values = np.ascontiguousarray(values)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        self.buffers.append(buffer)
        dtype = {"int8": "INT8", "int32": "INT32", "float32": "FLOAT32"}[str(values.dtype)]
        zeros = [0] * len(scales) if zero_points is None else zero_points
        return self._tensor(values.shape, dtype, scales, zeros, dimension, len(self.buffers) - 1)

    def build(self, inputs, output, graph_inputs=None):
        """Bytes of the model; inputs are tensor indices, -1 for an absent one."""
        model = schema.ModelT()
        model.version = 3
        model.buffers = self.buffers
        code = schema.OperatorCodeT()
        builtin = getattr(schema.BuiltinOperator, self.name)
        code.builtinCode = builtin
        code.deprecatedBuiltinCode = min(builtin, 127)
        code.version = 1
        model.operatorCodes = [code]
        op = schema.OperatorT()
        op.opcodeIndex = 0
        op.inputs = np.array(inputs, np.int32)
        op.outputs = np.array([output], np.int32)
        self._set_options(op)
        graph = schema.SubGraphT()
        graph.tensors = self.tensors
        activations = [i for i in inputs if i >= 0 and self.tensors[i].buffer == 0]
        graph.inputs = np.array(activations if graph_inputs is None else graph_inputs, np.int32)
        graph.outputs = np.array([output], np.int32)
        graph.operators = [op]
        model.subgraphs = [graph]
        return write_model(model)

    def _tensor(self, shape, dtype, scales, zero_points, dimension, buffer):
        tensor = schema.TensorT()
        tensor.shape = np.array(shape, np.int32)
        tensor.type = getattr(schema.TensorType, dtype)
        tensor.name = f"tensor_{len(self.tensors)}".encode()
        tensor.buffer = buffer
        if len(scales):
            quantization = schema.QuantizationParametersT()
            quantization.scale = np.array(scales, np.float32)
            quantization.zeroPoint = np.array(zero_points, np.int64)
            quantization.quantizedDimension = dimension
            tensor.quantization = quantization
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def _set_options(self, op):
        kinds = {
            "CONV_2D": "Conv2DOptions",
            "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
            "FULLY_CONNECTED": "FullyConnectedOptions",
            "AVERAGE_POOL_2D": "Pool2DOptions",
            "MAX_POOL_2D": "Pool2DOptions",
            "SOFTMAX": "SoftmaxOptions",
            "ADD": "AddOptions",
            "MUL": "MulOptions",
            "MEAN": "ReducerOptions",
            "CONCATENATION": "ConcatenationOptions",
            "RESHAPE": "ReshapeOptions",
            "PAD": "PadOptions",
            "PADV2": "PadV2Options",
            "LEAKY_RELU": "LeakyReluOptions",
            "QUANTIZE": "QuantizeOptions",
        }
        if self.name not in kinds:
            return
        kind = kinds[self.name]
        table = getattr(schema, kind + "T")()
        for key, value in self.options.items():
            assert hasattr(table, key), (kind, key)
            setattr(table, key, value)
        op.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
        op.builtinOptions = table
