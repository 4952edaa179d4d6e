"""Cut a flatbuffer at an operator into a frozen prefix and a trainable suffix.

Both halves keep the whole tensor list, so a tensor's index means the same in all three models.
Their outputs together are, bit for bit, those of the whole.
"""

import copy
import dataclasses

from converters.flatbuffer import write_model


@dataclasses.dataclass(frozen=True)
class Cut:
    """`boundary`: indices of the activations that cross; a skip connection gives two or more."""

    prefix: bytes | None
    suffix: bytes
    boundary: tuple[int, ...]


def live_tensors(model, first_op):
    """Activations made before operator `first_op` (or graph inputs) that it or later ones read."""
    graph = model.subgraphs[0]
    made = {int(i) for i in graph.inputs}
    for op in graph.operators[:first_op]:
        made.update(int(i) for i in op.outputs)
    read = []
    for op in graph.operators[first_op:]:
        read.extend(int(i) for i in op.inputs)
    read.extend(int(i) for i in graph.outputs)
    return tuple(sorted({i for i in read if i in made}))


def cut(model, first_op, outputs):
    """Split `model` before operator `first_op`.

    Args:
      model: a `schema.ModelT`; not changed.
      first_op: index of the suffix's first operator; 0 leaves no prefix.
      outputs: tensor indices the suffix gives out, for instance the logits. Operators that they do
        not need are left out of the suffix.
    """
    boundary = tuple(int(i) for i in model.subgraphs[0].inputs)
    prefix = None
    if first_op > 0:
        boundary = tuple(
            i for i in live_tensors(model, first_op) if i not in model.subgraphs[0].outputs
        )
        prefix = _part(model, 0, first_op, model.subgraphs[0].inputs, boundary)
    last = _last_needed(model, outputs)
    return Cut(prefix, _part(model, first_op, last, boundary, outputs), boundary)


def _last_needed(model, outputs):
    wanted = {int(i) for i in outputs}
    for number, op in reversed(list(enumerate(model.subgraphs[0].operators))):
        if wanted & {int(i) for i in op.outputs}:
            return number + 1
    return 0


def _part(model, first, last, inputs, outputs):
    # A shallow copy of the containers suffices: tensors and buffers are shared and not changed.
    part = copy.copy(model)
    graph = copy.copy(model.subgraphs[0])
    graph.operators = list(graph.operators[first:last])
    graph.inputs = list(inputs)
    graph.outputs = list(outputs)
    part.subgraphs = [graph]
    part.metadata = []
    part.signatureDefs = []
    return write_model(part)
