"""Read and write TFLite flatbuffers through the schema's object API, with every index checked.

`read_model` is the only door by which foreign bytes reach an engine: a file that would make an
interpreter read out of bounds is refused here with a `ModelFormatError`.
"""

import struct
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converters.errors import ModelFormatError

FILE_IDENTIFIER = b"TFL3"

# Bytes per element of the tensor types the product meets; a type that is not listed has no fixed
# size and its buffer is not checked.
_ITEM_SIZE = {
    schema.TensorType.FLOAT32: 4,
    schema.TensorType.FLOAT16: 2,
    schema.TensorType.INT32: 4,
    schema.TensorType.UINT8: 1,
    schema.TensorType.INT64: 8,
    schema.TensorType.BOOL: 1,
    schema.TensorType.INT16: 2,
    schema.TensorType.UINT16: 2,
    schema.TensorType.INT8: 1,
}

NUMPY_TYPE = {
    schema.TensorType.FLOAT32: np.float32,
    schema.TensorType.INT32: np.int32,
    schema.TensorType.INT64: np.int64,
    schema.TensorType.UINT8: np.uint8,
    schema.TensorType.INT16: np.int16,
    schema.TensorType.UINT16: np.uint16,
    schema.TensorType.INT8: np.int8,
    schema.TensorType.BOOL: np.bool_,
}


def type_name(tensor_type):
    """Name of a `TensorType` value, `INT8` for 9; `type 99` for one the schema does not know."""
    names = {v: k for k, v in vars(schema.TensorType).items() if not k.startswith("_")}
    return names.get(tensor_type, f"type {tensor_type}")


def op_name(model, op):
    """Name of an operator, `FULLY_CONNECTED`; a custom operator gives its own name."""
    code = model.operatorCodes[op.opcodeIndex]
    builtin = max(code.builtinCode, code.deprecatedBuiltinCode)
    if builtin == schema.BuiltinOperator.CUSTOM:
        return code.customCode.decode() if isinstance(code.customCode, bytes) else code.customCode
    names = {v: k for k, v in vars(schema.BuiltinOperator).items() if not k.startswith("_")}
    return names.get(builtin, f"BUILTIN_{builtin}")


def tensor_name(tensor):
    """A tensor's name as `str`, empty when the file has none."""
    name = tensor.name or b""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name


def load_bytes(model):
    """The flatbuffer as a private `bytes` copy, from bytes or a path.

    Raises:
      ModelFormatError: the path cannot be read.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        # bytes(b) of a bytes object is that same object: an engine that writes weights in place
        # would write through into the caller's, so copy by way of a bytearray.
        return bytes(bytearray(model))
    path = Path(model)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFormatError(f"Expected a readable .tflite file, got {path}: {error}") from error


def read_model(raw):
    """Parse and check a flatbuffer.

    Args:
      raw: bytes of a `.tflite` file.

    Returns:
      A `schema.ModelT` with one or more sub-graphs.

    Raises:
      ModelFormatError: not a TFLite file, truncated, or with an index or size out of range.
    """
    raw = bytes(raw)
    if len(raw) < 8 or raw[4:8] != FILE_IDENTIFIER:
        raise ModelFormatError(
            "Expected a TFLite file (bytes 4 to 8 are b'TFL3'), got "
            f"{len(raw)} bytes with {raw[4:8]!r} there: not a TFLite file (no TFL3 identifier)"
        )
    try:
        model = schema.ModelT.InitFromPackedBuf(raw, 0)
    except (struct.error, IndexError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise ModelFormatError(
            f"Expected a whole TFLite file, got {len(raw)} bytes that end or point outside the "
            f"file ({error}): truncated or damaged; fetch or convert it again"
        ) from error
    _check(model)
    return model


class _StableBuilder(flatbuffers.Builder):
    """A builder whose bytes depend on the model alone, with byte vectors on 16-byte boundaries.

    The schema asks for `force_align: 16`; the Python generator ignores that attribute, and a
    microcontroller without unaligned loads faults on an int32 bias at an odd address. Releases
    before 25.12 let tables of different sizes share a vtable and later ones do not: here they
    never do, so that every release packs the same bytes.
    """

    def __init__(self, size):
        super().__init__(size)
        self._vtables_of_size = {}

    def WriteVtable(self):  # noqa: N802 - flatbuffers' name
        # What the table's size will be once its vtable offset is in front of it.
        size = (self.Offset() + 3) // 4 * 4 + 4 - self.objectEnd
        self.vtables = self._vtables_of_size.setdefault(size, {})
        return super().WriteVtable()

    def StartVector(self, elemSize, numElems, alignment):  # noqa: N802,N803 - flatbuffers' name
        return super().StartVector(elemSize, numElems, 16 if elemSize == 1 else alignment)


def write_model(model):
    """Serialise a `schema.ModelT` to the bytes of a `.tflite` file, constants 16-byte aligned."""
    builder = _StableBuilder(1 << 16)
    builder.Finish(model.Pack(builder), FILE_IDENTIFIER)
    return bytes(builder.Output())


def constant(model, tensor):
    """A constant tensor's values as a new NumPy array, or None for an activation."""
    data = model.buffers[tensor.buffer].data
    if data is None or len(data) == 0:
        return None
    values = np.frombuffer(bytes(bytearray(data)), NUMPY_TYPE[tensor.type])
    shape = () if tensor.shape is None else tuple(int(d) for d in tensor.shape)
    return values.reshape(shape)


def set_constant(model, tensor, values):
    """Replace a constant tensor's values; shape and dtype must stay.

    Raises:
      ValueError: another shape or dtype than the tensor's.
    """
    current = constant(model, tensor)
    values = np.asarray(values)
    if current is None or values.shape != current.shape or values.dtype != current.dtype:
        expected = "an activation" if current is None else f"{current.dtype}{current.shape}"
        raise ValueError(
            f"Expected {expected} for tensor {tensor_name(tensor)!r}, "
            f"got {values.dtype}{values.shape}"
        )
    model.buffers[tensor.buffer].data = np.frombuffer(values.tobytes(), np.uint8)


def _check(model):
    if not model.subgraphs:
        raise ModelFormatError("Expected at least one sub-graph, got none: the file is damaged")
    buffers = model.buffers or []
    codes = model.operatorCodes or []
    for graph in model.subgraphs:
        tensors = graph.tensors if graph.tensors is not None else []
        for tensor in tensors:
            _check_tensor(tensor, buffers)
        count = len(tensors)
        _check_indices(graph.inputs, count, "graph input")
        _check_indices(graph.outputs, count, "graph output")
        for number, op in enumerate(graph.operators or []):
            if not 0 <= op.opcodeIndex < len(codes):
                raise ModelFormatError(
                    f"Expected an operator code below {len(codes)}, got {op.opcodeIndex} at "
                    f"operator {number}: the file is damaged"
                )
            _check_indices(op.inputs, count, f"operator {number} input", optional=True)
            _check_indices(op.outputs, count, f"operator {number} output")


def _check_indices(indices, count, what, optional=False):
    low = -1 if optional else 0
    for index in [] if indices is None else indices:
        if not low <= index < count:
            raise ModelFormatError(
                f"Expected a tensor index below {count}, got {index} as {what}: the file is damaged"
            )


def _check_tensor(tensor, buffers):
    name = tensor_name(tensor)
    if not 0 <= tensor.buffer < len(buffers):
        raise ModelFormatError(
            f"Expected a buffer index below {len(buffers)}, got {tensor.buffer} for tensor "
            f"{name!r}: the file is damaged"
        )
    shape = [] if tensor.shape is None else [int(d) for d in tensor.shape]
    if any(d < 0 for d in shape):
        raise ModelFormatError(f"Expected sizes of 0 or more, got {shape} for tensor {name!r}")
    data = buffers[tensor.buffer].data
    item = _ITEM_SIZE.get(tensor.type)
    if data is not None and len(data) and item and tensor.sparsity is None:
        expected = item
        for d in shape:
            expected *= d
        if expected != len(data):
            raise ModelFormatError(
                f"Expected {expected} bytes for tensor {name!r} of shape {shape}, got "
                f"{len(data)}: truncated or damaged"
            )
    quantization = tensor.quantization
    if quantization is None or quantization.scale is None:
        return
    scales, points = quantization.scale, quantization.zeroPoint
    if points is None or len(points) not in (len(scales), 1):
        raise ModelFormatError(
            f"Expected {len(scales)} zero points for tensor {name!r}, got "
            f"{0 if points is None else len(points)}: the file is damaged"
        )
    if not np.all(np.isfinite(scales)):
        raise ModelFormatError(f"Expected finite scales for tensor {name!r}, got {scales}")
    if len(scales) > 1:
        axis = quantization.quantizedDimension
        if not 0 <= axis < len(shape) or shape[axis] != len(scales):
            raise ModelFormatError(
                f"Expected one scale per entry of dimension {axis} of tensor {name!r} with shape "
                f"{shape}, got {len(scales)} scales"
            )
