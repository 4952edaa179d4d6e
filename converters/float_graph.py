"""Lower a Keras model to a float TFLite graph of batch 1 in which every operator knows its layer.

The converter of TensorFlow folds batch normalisation and fuses activations; quantisation is done
afterwards by `converters.quantize`, so that every scale is ours to fix. Variables are frozen first:
a trackable Keras 3 model otherwise leaves VAR_HANDLE operators behind.
"""

import contextlib
import dataclasses
import re
import threading

from converters.errors import ConversionError
from converters.flatbuffer import read_model, tensor_name
from converters.quiet import import_keras, import_tensorflow, quiet_native_output

_TOKEN = re.compile(r"TflmLayer(\d+)z")
_RENAME_LOCK = threading.Lock()
# TensorFlow operators that may be fused into the linear one before them.
_FUSED_TYPES = frozenset(
    "Identity BiasAdd Add AddV2 Sub Mul Relu Relu6 FusedBatchNormV3 Squeeze Minimum Maximum".split()
)


@dataclasses.dataclass
class FloatGraph:
    """A float TFLite model and the Keras layer behind each operator.

    Attributes:
      model: `schema.ModelT`, float32, batch 1.
      raw: its bytes.
      layers: {tensor index: names of the Keras layers fused into it, outermost first}.
      classes: {layer name: Keras class name}; empty for a SavedModel.
      input_names: names of the inputs, in the order of the model's inputs.
    """

    model: object
    raw: bytes
    layers: dict
    classes: dict
    input_names: list


def lower(model):
    """Convert a loaded model (`converters.loading.load_model`) to a `FloatGraph`.

    Raises:
      ConversionError: no input shape, an unknown dimension, or an operator TensorFlow refuses.
    """
    if hasattr(model, "signatures") and not hasattr(model, "layers"):
        call, shapes, dtypes, names = _saved_model_call(model)
        return _convert(call, shapes, dtypes, names, {}, {})
    model = _as_float32(model)
    call, shapes, dtypes, names = _keras_call(model)
    with _named_layers(model) as tokens:
        return _convert(
            call,
            shapes,
            dtypes,
            names,
            {token: layer_name for token, (layer_name, _) in tokens.items()},
            dict(tokens.values()),
        )


def _keras_call(model):
    keras = import_keras()
    if isinstance(model, keras.Model) and keras.backend.backend() != "tensorflow":
        raise ConversionError(
            f"Expected Keras to run on TensorFlow, got backend {keras.backend.backend()!r}: set "
            "KERAS_BACKEND=tensorflow and load the model again"
        )
    inputs = getattr(model, "inputs", None)
    if not inputs:
        raise ConversionError(
            f"model {getattr(model, 'name', '?')!r} has no input shape; add Input(...) as the "
            "first layer, or call model.build(input_shape)"
        )
    shapes = [tuple(x.shape) for x in inputs]
    names = [_input_name(x) for x in inputs]
    for name, shape in zip(names, shapes, strict=True):
        if any(d is None for d in shape[1:]):
            raise ConversionError(
                f"Expected fixed dimensions after the batch for input {name!r}, got {shape}: "
                "give Input(...) the whole shape"
            )
    dtypes = [getattr(x.dtype, "name", x.dtype) for x in inputs]

    structure = getattr(model, "_inputs_struct", None)

    def call(*tensors):
        if isinstance(structure, dict):
            return model(keras.tree.pack_sequence_as(structure, tensors), training=False)
        return model(list(tensors) if len(tensors) > 1 else tensors[0], training=False)

    return call, [(1,) + shape[1:] for shape in shapes], dtypes, names


def _input_name(tensor):
    """Name of the input layer: a Keras 3 tensor's own name counts up over the process's life."""
    history = getattr(tensor, "_keras_history", None)
    layer = getattr(history, "operation", None) or getattr(history, "layer", None)
    return layer.name if layer is not None else tensor.name.split(":")[0]


def _saved_model_call(model):
    signatures = dict(model.signatures)
    if not signatures:
        raise ConversionError(
            "Expected a SavedModel with a serving signature, got none: save it with "
            "model.export(folder)"
        )
    key = "serving_default" if "serving_default" in signatures else sorted(signatures)[0]
    signature = signatures[key]
    specs = signature.structured_input_signature[1]
    names = list(specs)
    shapes = []
    for name in names:
        if specs[name].shape.rank is None or any(d is None for d in specs[name].shape[1:]):
            raise ConversionError(
                f"Expected fixed dimensions after the batch for input {name!r}, got "
                f"{specs[name].shape}: export the model with fixed shapes"
            )
        shapes.append((1,) + tuple(specs[name].shape[1:]))

    def call(*tensors):
        return signature(**dict(zip(names, tensors, strict=True)))

    return call, shapes, [specs[name].dtype.name for name in names], names


def _as_float32(model):
    """The model itself, or a float32 rebuild of a mixed-precision one with the same weights."""
    policies = {
        str(layer.compute_dtype)
        for layer in _walk_layers(model)
        if getattr(layer, "compute_dtype", None)
    }
    if policies <= {"float32"}:
        return model
    try:
        with quiet_native_output():
            rebuilt = type(model).from_config(_float32_config(model.get_config()))
            rebuilt.set_weights([w.astype("float32") for w in model.get_weights()])
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ConversionError(
            f"Expected a float32 model, got dtype policy computing in {sorted(policies)} that "
            f"cannot be rebuilt as float32 ({str(error).splitlines()[0]}): set the policy to "
            "'float32', build the model again and copy the weights"
        ) from error
    return rebuilt


def _float32_config(config):
    if isinstance(config, dict):
        if config.get("class_name") in ("DTypePolicy", "Policy"):
            return "float32"
        return {
            key: "float32"
            if key == "dtype" and isinstance(value, str) and "float" in value
            else _float32_config(value)
            for key, value in config.items()
        }
    if isinstance(config, (list, tuple)):
        return type(config)(_float32_config(value) for value in config)
    return config


def _walk_layers(model):
    """Every layer once, through nested models, wrappers and layers held as attributes."""
    if hasattr(model, "_flatten_layers"):
        layers = model._flatten_layers(include_self=False, recursive=True)
    else:
        layers = getattr(model, "layers", [])
    seen = set()
    for layer in layers:
        if id(layer) not in seen:
            seen.add(id(layer))
            yield layer


@contextlib.contextmanager
def _named_layers(model):
    """Give every layer an unmistakable name while the model is traced, then the old one back.

    TensorFlow makes scope names unique by suffixes, so `conv2d_1` in a graph may be the layer
    `conv2d_1` or the second scope of `conv2d`. Yields {token: (layer name, class name)}.
    """
    with _RENAME_LOCK:
        saved, tokens = [], {}
        for number, layer in enumerate(_walk_layers(model)):
            attribute = "name" if "name" in vars(layer) else "_name"
            saved.append((layer, attribute, getattr(layer, attribute)))
            tokens[f"TflmLayer{number}z"] = (layer.name, type(layer).__name__)
        try:
            for number, (layer, attribute, _) in enumerate(saved):
                setattr(layer, attribute, f"TflmLayer{number}z")
            yield tokens
        finally:
            for layer, attribute, name in saved:
                setattr(layer, attribute, name)


def _convert(call, shapes, dtypes, names, tokens, classes):
    tf = import_tensorflow()
    from tensorflow.python.framework.convert_to_constants import (
        convert_variables_to_constants_v2,
    )

    # The names must be legal in a graph and come back in order; the real ones are put in below.
    specs = [
        tf.TensorSpec(shape, dtype, name=f"tflm_input_{i}")
        for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    ]
    try:
        with quiet_native_output():
            function = tf.function(call, input_signature=specs, autograph=False)
            frozen = convert_variables_to_constants_v2(
                function.get_concrete_function(), lower_control_flow=False
            )
            converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
            # Everything TensorFlow can express is let through, so that one message of
            # converters.op_support can list all that is missing with its layers.
            converter.target_spec.supported_ops = [
                tf.lite.OpsSet.TFLITE_BUILTINS,
                tf.lite.OpsSet.SELECT_TF_OPS,
            ]
            converter.allow_custom_ops = True
            raw = converter.convert()
    except Exception as error:  # noqa: BLE001 - TensorFlow raises whatever it likes here
        raise ConversionError(_tensorflow_error(error, tokens)) from error
    parsed = read_model(raw)
    scopes = {output.name.split(":")[0]: _scopes_behind(output.op) for output in frozen.outputs}
    layers = {
        index: _layers_of(scopes.get(tensor_name(tensor), tensor_name(tensor)), tokens)
        for index, tensor in enumerate(parsed.subgraphs[0].tensors)
    }
    return FloatGraph(parsed, raw, layers, classes, _ordered_inputs(parsed, names))


def _scopes_behind(op):
    """Fused name of an output, which TensorFlow calls `Identity`: all up to the linear operator."""
    scopes = []
    while op.type in _FUSED_TYPES:
        if op.type != "Identity":
            scopes.append(op.name)
        inputs = [x.op for x in op.inputs if x.op.type != "Const"]
        if len(inputs) != 1:
            return ";".join(scopes)
        op = inputs[0]
    return ";".join([*scopes, op.name])


def _ordered_inputs(model, names):
    """Put the inputs' own names in and order the graph's inputs as the model's."""
    graph = model.subgraphs[0]
    found = {}
    for index in graph.inputs:
        match = re.search(r"tflm_input_(\d+)", tensor_name(graph.tensors[index]))
        found[int(match.group(1))] = index
    kept = [names[i] for i in sorted(found)]
    for i, index in found.items():
        graph.tensors[index].name = names[i].encode()
    graph.inputs = [found[i] for i in sorted(found)]
    return kept


def _layers_of(name, tokens):
    """Keras layers in a fused tensor name `scope/op;scope/op`, each once, outermost first."""
    result = []
    for part in name.split(";"):
        if tokens:
            found = [tokens[t.group(0)] for t in _TOKEN.finditer(part) if t.group(0) in tokens]
            found = found[-1:]
        else:
            found = part.split("/")[-2:-1]
        result.extend(layer for layer in found if layer not in result)
    return result


def _tensorflow_error(error, tokens):
    text = _TOKEN.sub(lambda match: tokens.get(match.group(0), match.group(0)), str(error))
    layers = {tokens[m.group(0)]: None for m in _TOKEN.finditer(str(error)) if m.group(0) in tokens}
    where = f" (layers: {', '.join(layers)})" if layers else ""
    # Keras puts the cause on the lines behind "Exception encountered ...".
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (
        f"Expected a model TensorFlow can lower to TFLite{where}, got {type(error).__name__}: "
        f"{' '.join(lines[:3])}"
    )
