"""Which tensors may be trained: `last`, `last:K`, `NAME,...`, `all`, `bias` of any of these."""

from converters.errors import ConversionError
from converters.flatbuffer import op_name
from converters.op_support import WEIGHT_OPS


def weighted_ops(model):
    """Operator numbers of CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED, in graph order."""
    return [
        n for n, op in enumerate(model.subgraphs[0].operators) if op_name(model, op) in WEIGHT_OPS
    ]


def layer_of(graph, op):
    """Name of the Keras layer whose kernel an operator holds; empty when unknown."""
    names = [name for i in op.outputs for name in graph.layers.get(int(i), [])]
    for name in names:
        kind = graph.classes.get(name, "")
        if "Conv" in kind or "Dense" in kind:
            return name
    return names[-1] if names else ""


def select(graph, spec, *, forbidden=()):
    """Resolve a `trainable` option.

    Args:
      graph: `FloatGraph`.
      spec: `last`, `last:K`, `all`, layer names separated by commas, `bias` (every bias) or
        `bias:` followed by one of these.
      forbidden: layer names that may not be trained (unfolded batch normalisation).

    Returns:
      (kind, operator numbers): kind `weight` or `bias`.

    Raises:
      ConversionError: an unknown layer, an impossible K, or nothing to train.
    """
    if not isinstance(spec, str) or not spec.strip():
        raise ConversionError(f"Expected trainable=last, last:K, all, bias or names, got {spec!r}")
    spec = spec.strip()
    ops = weighted_ops(graph.model)
    names = {n: layer_of(graph, graph.model.subgraphs[0].operators[n]) for n in ops}
    if not ops:
        raise ConversionError(
            "Expected a convolution or dense layer to train, got a model without constant weights"
        )
    kind = "weight"
    if (spec == "bias" or spec.startswith("bias:")) and spec not in names.values():
        kind = "bias"
        spec = spec[5:] or "all"
    if spec == "all":
        return kind, ops
    if spec == "last" and "last" not in names.values():
        return kind, ops[-1:]
    if spec.startswith("last:"):
        count = spec[5:]
        if not count.isdigit() or not 1 <= int(count) <= len(ops):
            raise ConversionError(
                f"Expected last:K with K from 1 to {len(ops)} (layers with weights: "
                f"{', '.join(names.values())}), got {spec!r}"
            )
        return kind, ops[-int(count) :]
    wanted = [part.strip() for part in spec.split(",") if part.strip()]
    for name in wanted:
        if name in forbidden:
            raise ConversionError(
                f"Expected trainable layers with int8 weights, got {name!r}: this batch "
                "normalisation could not be folded into a layer before it and stays fixed"
            )
    unknown = [name for name in wanted if name not in names.values()]
    if unknown:
        raise ConversionError(
            f"Expected layers with weights ({', '.join(names.values())}), got "
            f"{', '.join(map(repr, unknown))}"
        )
    return kind, [n for n in ops if names[n] in wanted]
