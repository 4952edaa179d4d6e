"""Random nets for the PRIOT tests, loaded into the native trainer and its NumPy twin alike."""

import numpy as np

from tflm_train import _native
from tflm_train.priot._reference import ROUNDING_MODES
from tflm_train.priot._reference_net import ReferenceNet


def conv(h, w, c, o, *, kernel=3, stride=1, same=True, depthwise=False, relu=True):
    """Layer description with TFLite's SAME or VALID padding; also returns the output shape."""

    def axis(size):
        if not same:
            return (size - kernel) // stride + 1, 0
        out = -(-size // stride)
        return out, max((out - 1) * stride + kernel - size, 0) // 2

    (oh, top), (ow, left) = axis(h), axis(w)
    sizes = [h, w, c, oh, ow, o, kernel, kernel, stride, stride, top, left]
    return ("depthwise" if depthwise else "conv", sizes, relu), (oh, ow, o)


def pool(h, w, c, *, size=2, stride=2):
    oh, ow = (h - size) // stride + 1, (w - size) // stride + 1
    return ("max_pool", [h, w, c, oh, ow, size, size, stride, stride, 0, 0], False), (oh, ow, c)


def small_net(*, channels=(5, 16), size=9, depthwise=False, overlap=False, classes=10):
    """conv, pool, (depthwise,) conv stride 2, dense: odd sizes, so every tail is met."""
    specs = []
    spec, (h, w, c) = conv(size, size + 1, 2, channels[0])
    specs.append(spec)
    spec, (h, w, c) = pool(h, w, c, size=3 if overlap else 2, stride=2)
    specs.append(spec)
    if depthwise:
        spec, (h, w, c) = conv(h, w, c, c * 2, depthwise=True)
        specs.append(spec)
    spec, (h, w, c) = conv(h, w, c, channels[1], stride=2)
    specs.append(spec)
    specs.append(("dense", [h * w * c, 21], True))
    specs.append(("dense", [21, classes], False))
    return specs


def build(specs, rng, *, scores="dense", portable=False, threshold=-8, bias=False, **settings):
    """(native net, NumPy net) with the same random parameters."""
    twin = ReferenceNet(specs, **settings)
    options = {k: ROUNDING_MODES.index(v) if isinstance(v, str) else v for k, v in settings.items()}
    nets = [_native.PriotNet(specs, portable=portable)]
    nets[0].configure(options)
    for i, layer in enumerate(twin.layers):
        if layer.kind == "max_pool":
            continue
        s = layer.sizes
        fan = {
            "dense": s.get("inputs"),
            "conv": s.get("kernel_height", 0) ** 2 * s.get("in_channels", 0),
            "depthwise": s.get("kernel_height", 0) ** 2,
        }[layer.kind]
        out = s["outputs"] if layer.kind == "dense" else s["out_channels"]
        layer.weights = rng.integers(-127, 128, fan * out).astype(np.int64)
        layer.weight_exponent = -9
        bits = int(np.ceil(np.log2(np.sqrt(fan) * 40 * 70)))
        layer.forward_shift = max(bits - 7, 0)
        layer.backward_shift, layer.update_shift = 7, 14 if scores else 7
        nets[0].set_shifts(i, -9, layer.forward_shift, 7, layer.update_shift)
        nets[0].set_weights(i, layer.weights.astype(np.int8))
        if bias:
            layer.bias = rng.integers(-3000, 3000, out)
            nets[0].set_bias(i, layer.bias.astype(np.int32))
        if scores:
            layer.threshold = threshold
            layer.scores = rng.integers(-40, 41, fan * out).astype(np.int64)
            if scores == "sparse":
                layer.scored = rng.random(fan * out) < 0.3
            flags = np.zeros(0, np.uint8) if layer.scored is None else layer.scored.astype(np.uint8)
            nets[0].set_scores(i, layer.scores.astype(np.int8), flags, threshold)
    return nets[0], twin


def assert_same(native, twin, context=""):
    """Outputs, errors, weights and scores agree bit for bit."""
    for i, layer in enumerate(twin.layers):
        np.testing.assert_array_equal(native.output(i), layer.output.ravel(), f"{context} out {i}")
        if layer.kind == "max_pool":
            continue
        np.testing.assert_array_equal(native.get_weights(i), layer.weights, f"{context} w {i}")
        if layer.scores is not None:
            np.testing.assert_array_equal(native.get_scores(i), layer.scores, f"{context} s {i}")
            np.testing.assert_array_equal(native.get_effective(i), layer.effective())
