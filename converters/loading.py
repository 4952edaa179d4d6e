"""Open whatever a user has: a Keras object, `.keras`, `.h5` of Keras 2 or 3, a SavedModel."""

import json
import shutil
import tempfile
import zipfile
from pathlib import Path

from converters.errors import ConversionError
from converters.quiet import import_keras, import_tensorflow, quiet_native_output

_LOAD_ERRORS = (ValueError, TypeError, OSError, KeyError, AttributeError, ImportError)
_FORMATS = ".keras, .h5, .hdf5 or a SavedModel folder"

# Layers whose Keras-2 configuration holds a `groups` that Keras 3 refuses.
_LEGACY_GROUPS = (
    "DepthwiseConv1D",
    "DepthwiseConv2D",
    "SeparableConv1D",
    "SeparableConv2D",
    "Conv1DTranspose",
    "Conv2DTranspose",
)


def load_model(source):
    """A Keras model object, or a TensorFlow object with signatures for a SavedModel folder.

    Args:
      source: a Keras model, or a path.

    Raises:
      ConversionError: no such file, another format, or a file Keras cannot rebuild.
    """
    if hasattr(source, "__fspath__") or isinstance(source, str):
        return _load_path(Path(source))
    if hasattr(source, "layers") or hasattr(source, "signatures"):
        return source
    raise ConversionError(
        f"Expected a Keras model or a path to {_FORMATS}, got {type(source).__name__}"
    )


def _load_path(path):
    if path.is_dir():
        if not (path / "saved_model.pb").exists():
            raise ConversionError(
                f"Expected {_FORMATS}, got folder {path} without saved_model.pb: give the model's "
                "own folder"
            )
        tf = import_tensorflow()
        with quiet_native_output():
            return tf.saved_model.load(str(path))
    if not path.exists():
        raise ConversionError(f"Expected a path to {_FORMATS}, got {path}: no such file")
    suffix = path.suffix.lower()
    if suffix == ".tflite":
        raise ConversionError(
            f"Expected a Keras model ({_FORMATS}), got {path}: a .tflite file is already "
            "converted; give the Keras model it was made from"
        )
    if suffix not in (".keras", ".h5", ".hdf5"):
        raise ConversionError(f"Expected a path to {_FORMATS}, got {path}")
    keras = import_keras()
    try:
        return _load_file(keras, path)
    except _LOAD_ERRORS as error:
        first = error
    # A later Keras writes arguments that this one refuses. What once drew the weights does not
    # matter: the file holds the weights.
    try:
        with tempfile.TemporaryDirectory(prefix="tflm_train_") as folder:
            return _load_file(keras, for_older_keras(path, Path(folder)))
    except _LOAD_ERRORS:
        raise ConversionError(_explain(path, first)) from first


def _load_file(keras, path):
    with quiet_native_output():
        return keras.models.load_model(
            str(path), compile=False, custom_objects=_legacy_layers(keras)
        )


def for_older_keras(path, folder):
    """A copy of a .keras or .h5 file in `folder` without what a later Keras added.

    Initializers take their defaults, and unset quantisation settings are dropped.
    """
    copy = folder / path.name
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(copy, "w") as target:
            for name in source.namelist():
                data = source.read(name)
                if name == "config.json":
                    data = json.dumps(_for_older_keras(json.loads(data))).encode()
                target.writestr(name, data)
        return copy
    import h5py

    shutil.copyfile(path, copy)
    with h5py.File(copy, "r+") as file:
        config = json.loads(file.attrs["model_config"])
        file.attrs["model_config"] = json.dumps(_for_older_keras(config))
    return copy


def _for_older_keras(node):
    if isinstance(node, list):
        return [_for_older_keras(part) for part in node]
    if not isinstance(node, dict):
        return node
    if node.get("module") == "keras.initializers":
        return {**node, "config": {}}
    return {
        key: _for_older_keras(part)
        for key, part in node.items()
        if not (key == "quantization_config" and part is None)
    }


def _legacy_layers(keras):
    """Sub-classes of the same names that drop a Keras-2 `groups=1`."""

    def tolerant(base):
        def __init__(self, *args, groups=1, **kwargs):
            if groups != 1:
                raise ValueError(f"Expected groups=1 for {base.__name__}, got {groups}")
            base.__init__(self, *args, **kwargs)

        return type(base.__name__, (base,), {"__init__": __init__})

    return {name: tolerant(getattr(keras.layers, name)) for name in _LEGACY_GROUPS}


def _explain(path, error):
    """One message that names every layer Keras could not rebuild."""
    known = dir(import_keras().layers)
    strange = [
        f"layer {config.get('name', '?')!r} ({kind})"
        for kind, config in _layer_configs(path)
        if kind == "Lambda" or kind not in known
    ]
    if strange:
        return (
            f"Expected layers Keras can rebuild from a file, got in {path}: "
            f"{', '.join(strange)}. A file does not carry their Python code: build the model in "
            "Python and give the object to tflm_train.convert, or replace them by Keras layers"
        )
    first = str(error).strip().splitlines() or [type(error).__name__]
    return f"Expected a Keras model file, got {path}, which Keras cannot load: {first[0]}"


def _layer_configs(path):
    """(class name, configuration) of each layer named in the file, nested models included."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                config = json.loads(archive.read("config.json"))
        else:
            import h5py

            with h5py.File(path, "r") as file:
                config = json.loads(file.attrs["model_config"])
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return
    pending = [config]
    while pending:
        node = pending.pop(0)
        for layer in (node.get("config") or {}).get("layers") or []:
            inner = layer.get("config") or {}
            if "layers" in inner:
                pending.append(layer)
            else:
                yield layer.get("class_name"), inner
