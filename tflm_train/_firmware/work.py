"""How much work a training step is: counts of what the kernels of each target do.

Many of them depend on the data, since zeros are skipped; they are counted on a sample's activations
and errors as the host trainer leaves them.
"""

import numpy as np


def chain_work(chain, kernels, x, outputs, errors):
    """Work of one training step of a chain on one sample.

    Args:
      chain: a `Chain`.
      kernels: `armv6m`, `helium` or `portable`.
      x: int8 input.
      outputs: int8 outputs of every layer.
      errors: int8 errors of every layer, or None when the sample left none.

    Returns:
      `{kind of work: count}`.
    """
    work, layers = {}, chain.layers
    first = next(i for i, layer in enumerate(layers) if layer.weights is not None)
    for i, layer in enumerate(layers):
        _forward(work, layer, x if i == 0 else outputs[i - 1], kernels)
    if errors is None:
        return work
    for i in range(len(layers) - 1, first - 1, -1):
        layer, below = layers[i], x if i == 0 else outputs[i - 1]
        error = np.asarray(errors[i])
        if i < len(layers) - 1 and i > first and not error.any():
            break
        if i > first:
            masked = layers[i - 1].relu or layers[i - 1].kind == "max_pool"
            _backward(work, layer, error, below if masked else None, kernels)
        if layer.weights is not None:
            _update(work, layer, error, below, kernels)
    return work


def inference_work(chain, kernels, x, outputs):
    """Work of the forward pass alone."""
    return chain_work(chain, kernels, x, outputs, None)


def _add(work, **counts):
    for kind, count in counts.items():
        work[kind] = work.get(kind, 0) + float(count)


def _halves(values):
    return (np.asarray(values) + 1) // 2


def window_sums(layer, per_pixel):
    """Sums of a map [in_h, in_w] over the window of every output position."""
    in_h, in_w, _, out_h, out_w, _, kernel_h, kernel_w, stride_h, stride_w, top, left = layer.sizes
    total = np.zeros((out_h, out_w), np.int64)
    ys, xs = np.arange(out_h) * stride_h - top, np.arange(out_w) * stride_w - left
    for ky in range(kernel_h):
        for kx in range(kernel_w):
            y, x = ys + ky, xs + kx
            iny, inx = (y >= 0) & (y < in_h), (x >= 0) & (x < in_w)
            total[np.ix_(iny, inx)] += per_pixel[np.ix_(y[iny], x[inx])]
    return total


def _tap_sums(layer, per_position):
    """Sums of a map [out_h, out_w] over the windows that cover every input position."""
    in_h, in_w, _, out_h, out_w, _, kernel_h, kernel_w, stride_h, stride_w, top, left = layer.sizes
    total = np.zeros((in_h, in_w), np.int64)
    for ky in range(kernel_h):
        for kx in range(kernel_w):
            y = np.arange(out_h) * stride_h - top + ky
            x = np.arange(out_w) * stride_w - left + kx
            iny, inx = (y >= 0) & (y < in_h), (x >= 0) & (x < in_w)
            total[np.ix_(y[iny], x[inx])] += per_position[np.ix_(iny, inx)]
    return total


def _forward(work, layer, below, kernels):
    below = np.asarray(below)
    if layer.kind == "max_pool":
        _add(work, pool=layer.out_size * layer.sizes[5] * layer.sizes[6])
        return
    masked = layer.scores is not None
    _add(work, outputs=layer.out_size)
    if layer.kind == "depthwise":
        _add(work, depthwise=layer.out_size * layer.sizes[6] * layer.sizes[7])
    elif layer.kind == "dense":
        nonzero = int(np.count_nonzero(below))
        rows, inputs = layer.sizes[1], layer.sizes[0]
        if masked and layer.storage != "dense":
            _add(work, packed_mask=rows * inputs, dense_mac=rows * inputs)
        elif kernels == "armv6m":
            kind = "dense_masked" if masked else "dense_listed"
            _add(work, scan=inputs, **{kind: rows * nonzero})
        else:
            kind = "dense_masked" if masked else "dense_mac"
            _add(work, **{kind: rows * (-(-inputs // 16) * 16)})
    else:
        _conv_forward(work, layer, below, kernels, masked)


def _conv_forward(work, layer, below, kernels, masked):
    in_h, in_w, in_c, out_h, out_w, out_c = layer.sizes[:6]
    row, positions = layer.row_size, out_h * out_w
    packed = masked and layer.storage != "dense"
    if packed:
        _add(work, packed_mask=row * out_c)
    if kernels == "armv6m":
        nonzero = np.count_nonzero(below.reshape(in_h, in_w, in_c), axis=2)
        counts = window_sums(layer, nonzero)
        scanned = window_sums(layer, np.full((in_h, in_w), in_c))
        blocks = -(-out_c // 4)
        _add(work, pairs=_halves(counts).sum() * blocks, calls=positions * blocks,
             scan=scanned.sum(), listed=counts.sum(), pack=row * out_c)  # fmt: skip
    elif kernels == "helium":
        vectors = -(-row // 16)
        calls = positions / 4 * out_c
        _add(work, conv_vectors=calls * vectors, conv_calls=calls,
             windows=positions * layer.sizes[6],
             mask_vectors=out_c * vectors if masked and not packed else 0)  # fmt: skip
    else:
        _add(work, conv_mac=positions * out_c * row)


def _backward(work, layer, error, relu_output, kernels):
    nonzero = int(np.count_nonzero(error))
    if layer.kind == "max_pool":
        _add(work, pool_backward=layer.in_size)
        return
    packed = layer.scores is not None and layer.storage != "dense"
    passing = layer.in_size if relu_output is None else int(np.count_nonzero(relu_output > 0))
    if layer.kind == "depthwise":
        _add(work, depthwise=layer.in_size * layer.sizes[6] * layer.sizes[7], outputs=layer.in_size)
    elif layer.kind == "dense":
        if packed:
            _add(work, packed_mask=nonzero * layer.sizes[0], packed_add=nonzero * layer.sizes[0])
        elif kernels == "armv6m":
            _add(work, error_visits=passing * nonzero, outputs=passing, scan=layer.in_size)
        else:
            _add(work, error_visits=layer.in_size * nonzero, outputs=layer.in_size)
    else:
        _conv_backward(work, layer, error, relu_output, kernels, packed)


def _conv_backward(work, layer, error, relu_output, kernels, packed):
    in_h, in_w, in_c, out_h, out_w, out_c = layer.sizes[:6]
    row = layer.row_size
    per_position = np.count_nonzero(error.reshape(out_h, out_w, out_c), axis=2)
    counts = _tap_sums(layer, per_position)
    taps = _tap_sums(layer, np.ones((out_h, out_w), np.int64))
    if packed:
        _add(work, packed_mask=row * out_c)
    if kernels == "armv6m":
        blocks = np.full((in_h, in_w), -(-in_c // 4))
        passing = layer.in_size
        if relu_output is not None:
            alive = (np.asarray(relu_output) > 0).reshape(in_h, in_w, in_c)
            alive = np.pad(alive, ((0, 0), (0, 0), (0, -in_c % 4)))
            blocks = alive.reshape(in_h, in_w, -1, 4).any(3).sum(2)
            passing = int(alive.sum())
        blocks = np.where(counts > 0, blocks, 0)
        _add(work, pairs=(_halves(counts) * blocks).sum(), calls=blocks.sum(), pack=row * out_c,
             scan=taps.sum() * out_c, listed=counts.sum(), outputs=passing,
             positions=in_h * in_w)  # fmt: skip
    elif kernels == "helium":
        live = _tap_sums(layer, (per_position > 0).astype(np.int64))
        _add(work, conv_vectors=live.sum() * in_c / 4 * -(-out_c // 16),
             conv_calls=live.sum() * in_c / 4, transpose=row * out_c,
             positions=in_h * in_w, outputs=layer.in_size)  # fmt: skip
    else:
        _add(work, conv_error=counts.sum() * in_c, outputs=layer.in_size, positions=in_h * in_w)


def _update(work, layer, error, below, kernels):
    nonzero = int(np.count_nonzero(error))
    packed = layer.scores is not None and layer.storage != "dense"
    edges = "edges" if layer.scores is not None else "weight_edges"
    visits = "update_visits" if layer.scores is not None else "weight_visits"
    if layer.kind == "depthwise":
        _add(work, depthwise=nonzero * layer.sizes[6] * layer.sizes[7], **{edges: layer.row_size})
    elif layer.kind == "dense":
        inputs = layer.sizes[0]
        if packed:
            _add(work, packed_edges=nonzero * inputs)
        elif kernels == "armv6m":
            _add(work, scan=inputs, **{visits: nonzero * int(np.count_nonzero(below))})
        else:
            _add(work, **{visits: nonzero * inputs})
    else:
        in_c, out_h, out_w, out_c = layer.sizes[2:6]
        by_channel = np.count_nonzero(error.reshape(-1, out_c), axis=0)
        rows = int((by_channel > 0).sum())
        _add(work, **{"packed_edges" if packed else edges: rows * layer.row_size})
        _add(work, error_scan=out_h * out_w * out_c)
        if kernels == "armv6m" and in_c % 4 == 0:
            steps = layer.row_size // 4
            height = (out_h - 1) * layer.sizes[8] + layer.sizes[6]
            width = (out_w - 1) * layer.sizes[9] + layer.sizes[7]
            _add(work, pairs=_halves(by_channel).sum() * steps, calls=rows * steps,
                 pad=height * width * in_c / 2, listed=nonzero)  # fmt: skip
        else:
            _add(work, gradient=nonzero * layer.row_size, gradient_errors=nonzero)
