"""Integer forward and backward passes of a batch in NumPy, for calibration.

docs/priot_arithmetic.md with `half_up` rounding. Matrix products in float64 are exact: no sum comes
near 2^53.
"""

import numpy as np


def _half_up(values, shifts):
    shifts = np.asarray(shifts, np.int64).reshape(-1, *[1] * (values.ndim - 1))
    v = values.astype(np.int64)
    return np.where(shifts > 0, (v + (1 << np.maximum(shifts - 1, 0))) >> shifts, v)


def _bits(values):
    largest = np.max(np.abs(values).reshape(len(values), -1), axis=1)
    return np.array([int(v).bit_length() for v in largest])


class Pass:
    """Forward and backward pass of a batch; each sample has its own dynamic shifts."""

    def __init__(self, net, x, dynamic=False):
        self.net, self.dynamic = net, dynamic
        self.x = x.astype(np.float64)
        self.inputs, self.outputs, self.places = [], [], []
        self.forward_values, self.backward_values, self.gradient_values = {}, {}, {}
        self.exponent = np.full(len(x), net.input_exponent)

    def forward(self):
        value = self.x
        for layer in self.net.layers:
            if layer.kind == "dense":
                value = value.reshape(len(value), -1)
            self.inputs.append(value)
            if layer.kind == "max_pool":
                value, place = _max_pool(value, layer.sizes)
            else:
                sums, place = _linear(value, layer), None
                if layer.float_bias is not None:
                    scale = 2.0 ** (self.exponent + layer.exponent)
                    sums = sums + np.rint(
                        layer.float_bias / scale.reshape(-1, *[1] * (sums.ndim - 1))
                    )
                shifts = np.full(len(sums), layer.forward_shift)
                if self.dynamic:
                    shifts = np.maximum(_bits(sums) - 7, 0)
                    self.forward_values[layer.name] = shifts
                self.exponent = self.exponent + layer.exponent + shifts
                low = 0 if layer.relu else -128
                value = np.clip(_half_up(sums, shifts), low, 127).astype(np.float64)
            self.outputs.append(value)
            self.places.append(place)
        return value

    def backward(self, y, dynamic):
        error = _output_error(self.outputs[-1], self.exponent, y)
        rest = np.arange(len(error))
        for i in range(len(self.net.layers) - 1, -1, -1):
            layer = self.net.layers[i]
            error = error.reshape(len(rest), *self.outputs[i].shape[1:])
            if layer.relu:
                error = np.where(self.outputs[i][rest] > 0, error, 0)
            # A sample whose error has died out says nothing about the layers below either.
            alive = np.any(error.reshape(len(error), -1) != 0, axis=1)
            rest, error = rest[alive], error[alive]
            if not len(rest):
                return
            x = self.inputs[i][rest]
            if layer.kind == "max_pool":
                error = _pool_backward(error, self.places[i][rest], layer.sizes, x.shape)
                continue
            if not dynamic:
                bits = _gradient_bits(layer, x, error)
                self.gradient_values[layer.name] = bits[bits > 0]
            if layer is self.net.weighted()[0]:
                return
            sums = _linear_backward(error, layer, x.shape)
            shifts = np.full(len(sums), layer.backward_shift)
            if dynamic:
                bits = _bits(sums)
                shifts = np.maximum(bits - 7, 0)
                self.backward_values[layer.name] = shifts[bits > 0]
            error = np.clip(_half_up(sums, shifts), -127, 127).astype(np.float64)


def _output_error(logits, exponents, labels):
    """Integer cross-entropy error of each sample (docs/priot_arithmetic.md)."""
    errors = np.zeros_like(logits)
    for n, (row, e, label) in enumerate(zip(logits, exponents, labels, strict=True)):
        q, e = row.astype(np.int64), int(e)
        if e <= -7:
            low = max(e, -9)
            q = q >> min(low - e, 8)
            y = (1 << (1 - 2 * low)) + q * (1 << (1 - low)) + q * q
        else:
            s = (q * 47274) >> (15 - min(e, 15))
            y = (1 << np.maximum(s - s.max() + 10, 0)) - 1
        wide = (y << 11) // y.sum()
        wide[label] -= wide.sum()
        errors[n] = np.clip(np.sign(wide) * ((np.abs(wide) + 8) >> 4), -127, 127)
    return errors


def _patches(x, s):
    """[n, out_y, out_x, ky, kx, c]"""
    bottom = (s["out_height"] - 1) * s["stride_height"] + s["kernel_height"]
    right = (s["out_width"] - 1) * s["stride_width"] + s["kernel_width"]
    padded = np.zeros((len(x), max(bottom, s["pad_top"] + s["in_height"]),
                       max(right, s["pad_left"] + s["in_width"]), x.shape[3]))  # fmt: skip
    padded[:, s["pad_top"] : s["pad_top"] + s["in_height"],
           s["pad_left"] : s["pad_left"] + s["in_width"]] = x  # fmt: skip
    view = np.lib.stride_tricks.sliding_window_view(
        padded, (s["kernel_height"], s["kernel_width"]), axis=(1, 2)
    )
    view = view[:, :: s["stride_height"], :: s["stride_width"]]
    view = view[:, : s["out_height"], : s["out_width"]]
    return np.moveaxis(view, 3, 5)


def _linear(x, layer):
    w, s = layer.effective().astype(np.float64), layer.sizes
    if layer.kind == "dense":
        return x @ w.reshape(s["outputs"], -1).T
    patches = _patches(x, s)
    if layer.kind == "conv":
        flat = patches.reshape(*patches.shape[:3], -1)
        return flat @ w.reshape(s["out_channels"], -1).T
    repeat = s["out_channels"] // s["in_channels"]
    kernel = w.reshape(s["kernel_height"], s["kernel_width"], -1)
    return np.einsum("nabklo,klo->nabo", np.repeat(patches, repeat, -1), kernel)


def _linear_backward(error, layer, shape):
    w, s = layer.weights.astype(np.float64), layer.sizes
    if layer.kind == "dense":
        return error @ w.reshape(s["outputs"], -1)
    window = (s["kernel_height"], s["kernel_width"])
    if layer.kind == "conv":
        spread = error @ w.reshape(s["out_channels"], -1)
        spread = spread.reshape(*error.shape[:3], *window, s["in_channels"])
    else:
        repeat = s["out_channels"] // s["in_channels"]
        spread = np.einsum("nabo,klo->nabklo", error, w.reshape(*window, -1))
        spread = spread.reshape(*spread.shape[:-1], s["in_channels"], repeat).sum(-1)
    return _scatter(spread, s, shape)


def _scatter(spread, s, shape):
    tall = max((s["out_height"] - 1) * s["stride_height"] + s["kernel_height"],
               s["pad_top"] + shape[1])  # fmt: skip
    wide = max((s["out_width"] - 1) * s["stride_width"] + s["kernel_width"],
               s["pad_left"] + shape[2])  # fmt: skip
    sums = np.zeros((shape[0], tall, wide, shape[3]))
    for ky in range(s["kernel_height"]):
        for kx in range(s["kernel_width"]):
            rows = slice(ky, ky + s["out_height"] * s["stride_height"], s["stride_height"])
            columns = slice(kx, kx + s["out_width"] * s["stride_width"], s["stride_width"])
            target = sums[:, rows, columns]
            target += spread[:, : target.shape[1], : target.shape[2], ky, kx]
    return sums[:, s["pad_top"] : s["pad_top"] + shape[1], s["pad_left"] : s["pad_left"] + shape[2]]


def _gradient_bits(layer, x, error):
    s = layer.sizes
    if layer.kind == "dense":
        gradient = error[:, :, None] * x[:, None, :]
    elif layer.kind == "conv":
        patches = _patches(x, s).reshape(len(x), s["out_height"] * s["out_width"], -1)
        gradient = error.reshape(len(x), -1, s["out_channels"]).transpose(0, 2, 1) @ patches
    else:
        repeat = s["out_channels"] // s["in_channels"]
        patches = np.repeat(_patches(x, s), repeat, -1)
        gradient = np.einsum("nabo,nabklo->nklo", error, patches)
    gradient = gradient.reshape(len(x), -1)
    if layer.scores is not None:
        gradient = gradient * layer.weights
        if layer.scored is not None:
            gradient = gradient[:, layer.scored]
    return _bits(np.clip(gradient, -(2.0**31), 2.0**31 - 1))


def _max_pool(x, s):
    window = {**s, "kernel_height": s["filter_height"], "kernel_width": s["filter_width"]}
    # Borders must lose against any value, so shift the codes above the zero padding.
    patches = _patches(x + 256, window)
    flat = patches.reshape(*patches.shape[:3], -1, x.shape[3])
    return flat.max(3) - 256, flat.argmax(3)


def _pool_backward(error, place, s, shape):
    window = {**s, "kernel_height": s["filter_height"], "kernel_width": s["filter_width"]}
    number = np.arange(s["filter_height"] * s["filter_width"]).reshape(1, 1, 1, -1, 1)
    spread = np.where(place[:, :, :, None, :] == number, error[:, :, :, None, :], 0)
    spread = spread.reshape(*error.shape[:3], s["filter_height"], s["filter_width"], -1)
    return np.clip(_scatter(spread, window, shape), -127, 127)
