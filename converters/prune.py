"""Drop what nothing refers to: tensors, buffers, operator codes and stale metadata."""

from ai_edge_litert import schema_py_generated as schema

# Written by TensorFlow's converter about a float model that no longer is one.
_STALE_METADATA = {"CONVERSION_METADATA", "min_runtime_version"}


def prune_unused(model):
    """Renumber `model` (a `schema.ModelT` of one sub-graph) in place so that nothing is unused.

    Returns:
      The same model. Operators keep their numbers; tensors keep their order.
    """
    subgraph = model.subgraphs[0]
    used = {int(i) for i in list(subgraph.inputs) + list(subgraph.outputs)}
    for op in subgraph.operators:
        used.update(int(i) for i in list(op.inputs) + list(op.outputs) if i >= 0)
    kept = sorted(used)
    position = {old: new for new, old in enumerate(kept)}
    position[-1] = -1
    subgraph.tensors = [subgraph.tensors[i] for i in kept]
    subgraph.inputs = [position[int(i)] for i in subgraph.inputs]
    subgraph.outputs = [position[int(i)] for i in subgraph.outputs]
    for op in subgraph.operators:
        op.inputs = [position[int(i)] for i in op.inputs]
        op.outputs = [position[int(i)] for i in op.outputs]
    _prune_codes(model, subgraph)
    model.metadata = [m for m in model.metadata or [] if _text(m.name) not in _STALE_METADATA]
    _prune_buffers(model, subgraph)
    return model


def _prune_codes(model, subgraph):
    codes = sorted({int(op.opcodeIndex) for op in subgraph.operators})
    position = {old: new for new, old in enumerate(codes)}
    model.operatorCodes = [model.operatorCodes[i] for i in codes]
    for op in subgraph.operators:
        op.opcodeIndex = position[int(op.opcodeIndex)]


def _prune_buffers(model, subgraph):
    # Buffer 0 is the empty one that activations point to.
    old = model.buffers
    buffers, position = [schema.BufferT()], {}
    for holder in list(subgraph.tensors) + list(model.metadata):
        data = old[holder.buffer].data
        if data is None or len(data) == 0:
            holder.buffer = 0
            continue
        if holder.buffer not in position:
            position[holder.buffer] = len(buffers)
            buffers.append(old[holder.buffer])
        holder.buffer = position[holder.buffer]
    model.buffers = buffers
    model.metadataBuffer = None


def _text(name):
    return name.decode() if isinstance(name, bytes) else name
