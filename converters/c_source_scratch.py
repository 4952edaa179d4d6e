"""Python twin of micro_ops/trainer/train_scratch.h; generated code asserts that the two agree."""


def _align(size):
    return (size + 15) & ~15


def _lanes(channels):
    return (channels + 3) & ~3


def _portable(kind, sizes, through):
    if kind == "dense":
        if through == "weights":
            return 0
        return _align(sizes[0]) + (_align(4 * sizes[0]) if through == "packed" else 0)
    in_h, in_w, in_c, _, _, out_c, kernel_h, kernel_w = sizes[:8]
    if kind == "depthwise":
        return _align(4 * kernel_h * kernel_w * out_c)
    row = kernel_h * kernel_w * in_c
    sums = in_h * in_w * in_c if through == "packed" else in_c
    masked = 0 if through == "weights" else _align(row)
    return max(masked + _align(4 * sums), _align(4 * row))


def _armv6m_conv(sizes, through):
    _, _, in_c, out_h, out_w, out_c, kernel_h, kernel_w, stride_h, stride_w = sizes[:10]
    row, window, entry = kernel_h * kernel_w * in_c, kernel_h * kernel_w * out_c, 8
    forward = (2 * row + 4) * _lanes(out_c) + entry * (row + 4)
    backward = (2 * window + 4) * _lanes(in_c) + entry * (window + 4)
    height = (out_h - 1) * stride_h + kernel_h
    width = (out_w - 1) * stride_w + kernel_w
    update = 2 * height * width * _lanes(in_c) + entry * (out_h * out_w + 4) + 4 * row
    parts = [_align(forward), _align(backward), _align(update)]
    return max(*parts, _portable("conv", sizes, through)) + 32


def _helium_conv(sizes, through):
    row = sizes[6] * sizes[7] * sizes[2]
    weights = _align(row * sizes[5])
    forward = 4 * _align(row) + (0 if through == "weights" else weights)
    return max(forward, _align(row) + weights, _portable("conv", sizes, through))


def layer_scratch(kernels, kind, sizes, through):
    """Bytes of scratch of a layer's training kernels.

    Args:
      kernels: `portable`, `armv6m` or `helium`.
      kind: `conv`, `depthwise` or `dense`.
      sizes: of the layer's shape.
      through: `weights`, `dense` or `packed`.
    """
    if kernels == "armv6m" and kind == "conv":
        return _armv6m_conv(sizes, through)
    if kernels == "helium" and kind == "conv":
        return _helium_conv(sizes, through)
    if kernels == "armv6m" and kind == "dense":
        lists = max(_align(2 * sizes[0]), _align(8 * sizes[1]))
        return max(lists, _align(4 * sizes[0])) if through == "packed" else lists
    return _portable(kind, sizes, through)
