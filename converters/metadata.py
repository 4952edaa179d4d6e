"""Labels, normalisation and description in the standard TFLite metadata, where other tools look.

`tflite-support`'s own populator writes the entry; its package init does not import beside current
TensorFlow, its metadata half does when imported by its own path (docs of the extra `metadata`).
Label files travel in a zip behind the flatbuffer: whoever rewrites a model appends
`appendix(old bytes)` to keep them.
"""

import importlib
import io
import logging
import zipfile

from converters.flatbuffer import read_model, tensor_name, write_model
from converters.quiet import quiet_native_output

_LOGGER = logging.getLogger(__name__)

METADATA_NAME = "TFLITE_METADATA"
LABEL_FILE = "labels.txt"
_PACKAGE = "tensorflow_lite_support.metadata"
# Zip entries carry a date; a fixed one keeps equal models equal in bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


def add_metadata(raw, *, labels=(), normalization=None, description=None):
    """The model with a TFLITE_METADATA entry and, when there are labels, a label file behind it.

    Without `tflite-support` the bytes come back as they are and a warning says what is left out.

    Args:
      raw: a `.tflite` file.
      labels: class names of output 0, in order.
      normalization: `{"scale": s, "offset": o}`, float input = raw data * s + o.
      description: one line about the model.
    """
    given = {"labels": labels, "normalization": normalization, "description": description}
    given = [name for name, value in given.items() if value]
    if not given:
        return raw
    try:
        with quiet_native_output():
            schema = importlib.import_module(f"{_PACKAGE}.metadata_schema_py_generated")
            writer = importlib.import_module(f"{_PACKAGE}.python.metadata")
    except ImportError as error:
        _LOGGER.warning(
            "%s left out of the standard TFLite metadata (kept in the training entry): "
            "tflite-support does not import (%s); pip install 'tflm-train[metadata]'",
            " and ".join(given),
            error,
        )
        return raw
    model = read_model(raw)
    buffer = _metadata_buffer(schema, model, labels, normalization, description)
    populator = writer.MetadataPopulator.with_model_buffer(bytearray(raw))
    populator.load_metadata_buffer(buffer)
    files = {LABEL_FILE: _label_text(labels)} if labels else {}
    if files:
        populator.load_associated_file_buffers(files)
    populator.populate()
    return _graft(model, bytes(populator.get_model_buffer())) + _zip(files)


def appendix(raw):
    """The zip of label files behind a flatbuffer as self-contained bytes; empty when there is none.

    Append it to the re-written model: `write_model(model) + appendix(old)`.
    """
    return _zip(associated_files(raw))


def associated_files(raw):
    """{name: bytes} of the files behind a flatbuffer."""
    try:
        with zipfile.ZipFile(io.BytesIO(bytes(raw))) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return {}


def describe(raw):
    """`name`, `description`, `labels`, `normalization` found in the standard metadata.

    Works for models of any origin; keys that are absent or that need `tflite-support` to be read
    are left out.
    """
    found = {}
    model = read_model(raw)
    description = _text(model.description)
    if description and description != "MLIR Converted.":
        found["description"] = description
    labels = associated_files(raw).get(LABEL_FILE)
    if labels:
        found["labels"] = labels.decode("utf-8", "replace").splitlines()
    data = _entry(model)
    if data is None:
        return found
    try:
        schema = importlib.import_module(f"{_PACKAGE}.metadata_schema_py_generated")
    except ImportError:
        _LOGGER.debug("TFLITE_METADATA present but tflite-support is not installed")
        return found
    entry = schema.ModelMetadataT.InitFromObj(schema.ModelMetadata.GetRootAs(data, 0))
    for key in ("name", "description"):
        if getattr(entry, key):
            found[key] = _text(getattr(entry, key))
    normalization = _read_normalization(schema, entry)
    if normalization:
        found["normalization"] = normalization
    return found


def _metadata_buffer(schema, model, labels, normalization, description):
    import flatbuffers

    graph = model.subgraphs[0]
    inputs = [_tensor_metadata(schema, graph.tensors[i]) for i in graph.inputs]
    outputs = [_tensor_metadata(schema, graph.tensors[i]) for i in graph.outputs]
    if normalization:
        # The standard writes (raw - mean) / std for what we write raw * scale + offset.
        options = schema.NormalizationOptionsT()
        options.mean = [-normalization["offset"] / normalization["scale"]]
        options.std = [1 / normalization["scale"]]
        unit = schema.ProcessUnitT()
        unit.optionsType = schema.ProcessUnitOptions.NormalizationOptions
        unit.options = options
        for tensor in inputs:
            tensor.processUnits = [unit]
    if labels:
        file = schema.AssociatedFileT()
        file.name = LABEL_FILE
        file.description = "Class names, one a line, in the order of the output"
        file.type = schema.AssociatedFileType.TENSOR_AXIS_LABELS
        outputs[0].associatedFiles = [file]
    subgraph = schema.SubGraphMetadataT()
    subgraph.inputTensorMetadata = inputs
    subgraph.outputTensorMetadata = outputs
    entry = schema.ModelMetadataT()
    entry.name = "tflm-train"
    entry.description = description or "int8 model for tflm-train"
    entry.subgraphMetadata = [subgraph]
    builder = flatbuffers.Builder(0)
    builder.Finish(entry.Pack(builder), b"M001")
    return builder.Output()


def _tensor_metadata(schema, tensor):
    entry = schema.TensorMetadataT()
    entry.name = tensor_name(tensor)
    return entry


def _graft(model, populated):
    """Our flatbuffer plus the populated entry.

    The populator re-packs the model with the schema of its release, which may drop newer fields,
    and without the alignment of constants; so only its entry is taken over.
    """
    from converters.flatbuffer import schema

    buffer = schema.BufferT()
    buffer.data = _entry(read_model(populated))
    model.buffers.append(buffer)
    entry = schema.MetadataT()
    entry.name = METADATA_NAME
    entry.buffer = len(model.buffers) - 1
    kept = [m for m in model.metadata or [] if _text(m.name) != METADATA_NAME]
    model.metadata = [*kept, entry]
    return write_model(model)


def _entry(model):
    for item in model.metadata or []:
        if _text(item.name) == METADATA_NAME and 0 <= item.buffer < len(model.buffers):
            return model.buffers[item.buffer].data
    return None


def _read_normalization(schema, entry):
    for graph in entry.subgraphMetadata or []:
        for tensor in graph.inputTensorMetadata or []:
            for unit in tensor.processUnits or []:
                if unit.optionsType != schema.ProcessUnitOptions.NormalizationOptions:
                    continue
                mean, std = unit.options.mean, unit.options.std
                if mean is None or std is None or len(mean) != 1 or not std[0]:
                    continue
                scale = 1 / float(std[0])
                return {"scale": scale, "offset": -float(mean[0]) * scale}
    return None


def _label_text(labels):
    return ("\n".join(labels) + "\n").encode()


def _zip(files):
    if not files:
        return b""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _DATE), files[name])
    return stream.getvalue()


def _text(value):
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else (value or "")
