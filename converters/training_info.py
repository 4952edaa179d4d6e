"""What a converted model knows about its own training, kept in the flatbuffer's metadata.

The entry is UTF-8 JSON under the name `tflm_train`, so that the file stays an ordinary TFLite model
for every other tool and a person can read it with `strings`.
"""

import dataclasses
import json

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converters.errors import ModelFormatError
from converters.flatbuffer import tensor_name

METADATA_NAME = "tflm_train"
FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True)
class TrainableTensor:
    """One tensor that training may change.

    Attributes:
      tensor: index in sub-graph 0.
      op: index of the operator that reads it.
      name: the tensor's name in the flatbuffer.
      layer: name of the Keras layer it came from, or the tensor's name.
      kind: `weight` (int8) or `bias` (int32).
      limit: largest magnitude training may store; 126 leaves room for a perturbation of 1.
    """

    tensor: int
    op: int
    name: str
    layer: str
    kind: str = "weight"
    limit: int = 126


@dataclasses.dataclass(frozen=True)
class TrainingInfo:
    """The training entry of a converted model; every field has a JSON twin of the same name.

    Attributes:
      method: `zo`, `priot`, `priot-s` or `niti`.
      trainable: the tensors training may change, in graph order.
      calibrated: False when the scales come from synthetic noise.
      calibration: how the scales were found: samples, source, clip percentiles.
      options: the conversion options that shaped the file.
      labels: class names, empty when unknown.
      normalization: `{"scale": s, "offset": o}`: float input = raw data * s + o, applied by the
        data loaders before quantisation; empty for data that is fed as it is.
      method_data: further entries of one method, for instance PRIOT's shifts.
    """

    method: str = "zo"
    trainable: tuple[TrainableTensor, ...] = ()
    calibrated: bool = True
    calibration: dict = dataclasses.field(default_factory=dict)
    options: dict = dataclasses.field(default_factory=dict)
    labels: tuple[str, ...] = ()
    normalization: dict = dataclasses.field(default_factory=dict)
    method_data: dict = dataclasses.field(default_factory=dict)
    version: int = FORMAT_VERSION

    def to_json(self):
        """UTF-8 JSON bytes with sorted keys: equal entries give equal bytes."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, raw):
        """Parse what `to_json` wrote.

        Raises:
          ModelFormatError: not JSON, a newer version, or a field of another type.
        """
        try:
            fields = json.loads(bytes(raw).rstrip(b"\0").decode())
            version = fields["version"]
            if version > FORMAT_VERSION:
                raise ModelFormatError(
                    f"Expected a training entry of version {FORMAT_VERSION} or older, got "
                    f"{version}: upgrade tflm-train"
                )
            fields["trainable"] = tuple(TrainableTensor(**t) for t in fields["trainable"])
            fields["labels"] = tuple(fields["labels"])
            return cls(**fields)
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, ModelFormatError):
                raise
            raise ModelFormatError(
                f"Expected a training entry as JSON in metadata {METADATA_NAME!r}, got one that "
                f"does not parse ({error}): convert the model again"
            ) from error


def read_training_info(model):
    """The `TrainingInfo` of a `schema.ModelT`, or None for a model converted elsewhere.

    Raises:
      ModelFormatError: the entry is damaged or names tensors the model does not have.
    """
    for entry in model.metadata or []:
        if entry.name in (METADATA_NAME, METADATA_NAME.encode()):
            if not 0 <= entry.buffer < len(model.buffers) or (
                model.buffers[entry.buffer].data is None
            ):
                raise ModelFormatError(
                    f"Expected a buffer for metadata {METADATA_NAME!r}, got none"
                )
            info = TrainingInfo.from_json(bytes(bytearray(model.buffers[entry.buffer].data)))
            _check_trainable(model, info)
            return info
    return None


def write_training_info(model, info):
    """Store `info` in a `schema.ModelT`, replacing an older entry."""
    data = np.frombuffer(info.to_json(), np.uint8)
    for entry in model.metadata or []:
        if entry.name in (METADATA_NAME, METADATA_NAME.encode()):
            model.buffers[entry.buffer].data = data
            return
    buffer = schema.BufferT()
    buffer.data = data
    model.buffers.append(buffer)
    entry = schema.MetadataT()
    entry.name = METADATA_NAME
    entry.buffer = len(model.buffers) - 1
    model.metadata = list(model.metadata or []) + [entry]


def _check_trainable(model, info):
    graph = model.subgraphs[0]
    for item in info.trainable:
        if not 0 <= item.tensor < len(graph.tensors) or not 0 <= item.op < len(graph.operators):
            raise ModelFormatError(
                f"Expected trainable tensor {item.name!r} at index {item.tensor} of operator "
                f"{item.op}, got a model of {len(graph.tensors)} tensors and "
                f"{len(graph.operators)} operators: convert it again"
            )
        found = tensor_name(graph.tensors[item.tensor])
        if found != item.name:
            raise ModelFormatError(
                f"Expected tensor {item.tensor} to be {item.name!r}, got {found!r}: the file was "
                "changed by another tool; convert it again"
            )
