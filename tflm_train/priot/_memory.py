"""Memory of one training step on a device, counted as the PRIOT paper's table does."""

from converters.priot_format import choose_storage


def footprint(net):
    """Bytes a device needs to train `net` at batch 1.

    Weights, scores and scored edges, and the peak of the buffers of one step: activations that the
    backward pass reads again, errors, the places of the maxima, and one row of int32 sums. What
    a pool reads is dropped once it is pooled: the pool's own output tells the ReLU's mask.

    Args:
      net: a `converters.priot_net.PriotNet`.

    Returns:
      A dict: `weights`, `scores`, `buffers`, `total`, in bytes.

    Example:
      >>> footprint(trainer.net)["total"]  # doctest: +SKIP
      126920
    """
    weights = sum(layer.weights.size for layer in net.weighted())
    scores = sum(
        choose_storage(layer.scored, layer.rows, layer.row_size)[1]
        for layer in net.weighted()
        if layer.scores is not None
    )
    buffers = _peak(net)
    return {
        "weights": weights,
        "scores": scores,
        "buffers": buffers,
        "total": weights + scores + buffers,
    }


def _out_size(layer):
    size = 1
    for d in layer.out_shape:
        size *= d
    return size


def _scratch(layer):
    """One row of sums for the update; the sums of one position for the error."""
    if layer.kind == "dense":
        return layer.row_size if layer.scores is not None else 0
    row = layer.row_size * (5 if layer.scores is not None else 4)
    return row + 4 * layer.sizes.get("in_channels", 0)


def _peak(net):
    layers = net.layers
    sizes = [layers[0].in_size] + [_out_size(layer) for layer in layers]
    pooled = [i + 1 < len(layers) and layers[i + 1].kind == "max_pool" for i in range(len(layers))]
    peak, kept = 0, sizes[0]
    for i, layer in enumerate(layers):
        places = sizes[i + 1] if layer.kind == "max_pool" else 0
        peak = max(peak, kept + sizes[i + 1] + places + _scratch_forward(layer))
        if not pooled[i]:
            kept += sizes[i + 1] + places
        if layer.kind == "max_pool":
            # Its input was counted as the layer's output while both were alive.
            peak = max(peak, kept + sizes[i])
    first = layers.index(net.weighted()[0])
    for i in range(len(layers) - 1, first - 1, -1):
        layer = layers[i]
        error_out = sizes[i + 1]
        error_in = sizes[i] if i > first else 0
        scratch = _scratch(layer) if layer.has_weights else 0
        peak = max(peak, kept + error_out + error_in + scratch)
        if not pooled[i]:
            kept -= sizes[i + 1]
            kept -= sizes[i + 1] if layer.kind == "max_pool" else 0
    return peak


def _scratch_forward(layer):
    return layer.row_size if layer.has_weights and layer.scores is not None else 0
