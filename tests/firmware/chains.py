"""Random chains for the firmware tests, and the host trainer loaded with the same numbers."""

from pathlib import Path

import numpy as np
import pytest

from converters.c_source_chain import ROUNDINGS, Chain, ChainLayer

REPOSITORY = Path(__file__).resolve().parents[2]


def conv(h, w, c, o, *, stride=1, kernel=3, depthwise=False, relu=True):
    """(kind, sizes, relu) of a SAME convolution, and its output's shape."""

    def axis(size):
        out = -(-size // stride)
        return out, max((out - 1) * stride + kernel - size, 0) // 2

    (oh, top), (ow, left) = axis(h), axis(w)
    sizes = [h, w, c, oh, ow, o, kernel, kernel, stride, stride, top, left]
    return ("depthwise" if depthwise else "conv", sizes, relu), (oh, ow, o)


def pool(h, w, c):
    """(kind, sizes, relu) of a 2x2 max pool, and its output's shape."""
    return ("max_pool", [h, w, c, h // 2, w // 2, 2, 2, 2, 2, 0, 0], False), (h // 2, w // 2, c)


def tiny_cnn_s2():
    """conv 1-16, conv 16-32, both of stride 2, dense 1568-30-10: 52,092 weights."""
    first, shape = conv(28, 28, 1, 16, stride=2)
    second, shape = conv(*shape, 32, stride=2)
    return [first, second, ("dense", [1568, 30], True), ("dense", [30, 10], False)]


def tiny_cnn():
    """The same weights with pools instead of strides."""
    first, shape = conv(28, 28, 1, 16)
    half, shape = pool(*shape)
    second, shape = conv(*shape, 32)
    quarter, shape = pool(*shape)
    return [first, half, second, quarter, ("dense", [1568, 30], True), ("dense", [30, 10], False)]


def odd_net():
    """Sizes that meet every tail: pool, depthwise, channels that are no multiple of 4."""
    first, shape = conv(10, 11, 2, 5)
    half, shape = pool(*shape)
    deep, shape = conv(*shape, shape[2] * 2, depthwise=True)
    second, shape = conv(*shape, 18, stride=2)
    return [first, half, deep, second, ("dense", [int(np.prod(shape)), 21], True),
            ("dense", [21, 7], False)]  # fmt: skip


def random_chain(specs, number, *, method="priot", storage="dense", threshold=-8, bias=False,
                 share=0.3, spread=40, pruned=None, **settings):  # fmt: skip
    """A `Chain` with random parameters whose activations stay in range.

    Every score of layer number `pruned` is far below the threshold.
    """
    rng = np.random.default_rng(number)
    layers = []
    for kind, sizes, relu in specs:
        layer = ChainLayer(kind, list(sizes), relu)
        layers.append(layer)
        if kind == "max_pool":
            continue
        fan = {"dense": sizes[0], "conv": layer.row_size, "depthwise": 9}[kind]
        channels = sizes[1] if kind == "dense" else sizes[5]
        edges = layer.row_size * (1 if kind == "depthwise" else channels)
        layer.weights = rng.integers(-127, 128, edges).astype(np.int8)
        layer.weight_exponent = -9
        layer.forward_shift = max(int(np.ceil(np.log2(np.sqrt(fan) * 40 * 70))) - 7, 0)
        layer.backward_shift = 7
        layer.update_shift = 7 if method == "niti" else 12
        if bias:
            layer.bias = rng.integers(-3000, 3000, channels).astype(np.int32)
        if method != "niti":
            layer.storage, layer.threshold = storage, threshold
            layer.scores = rng.integers(-spread, spread + 1, edges).astype(np.int8)
            if len(layers) - 1 == pruned:
                layer.scores[:] = -128
            if storage != "dense":
                layer.scored = rng.random(edges) < share
    return Chain(layers, method=method, **settings)


def host_net(chain, *, portable=False):
    """The native trainer with the chain's parameters."""
    from tflm_train import _native

    specs = [(layer.kind, layer.sizes, layer.relu) for layer in chain.layers]
    net = _native.PriotNet(specs, portable=portable)
    net.configure({
        "forward": ROUNDINGS.index(chain.forward), "backward": ROUNDINGS.index(chain.backward),
        "update": ROUNDINGS.index(chain.update), "masked_backward": chain.masked_backward,
        "input_exponent": chain.input_exponent, "seed": chain.seed,
    })  # fmt: skip
    for i, layer in enumerate(chain.layers):
        if layer.weights is None:
            continue
        net.set_shifts(
            i, layer.weight_exponent, layer.forward_shift, layer.backward_shift, layer.update_shift
        )
        net.set_weights(i, layer.weights)
        if layer.bias is not None:
            net.set_bias(i, layer.bias)
        if layer.scores is not None:
            flags = np.zeros(0, np.uint8) if layer.scored is None else layer.scored.astype(np.uint8)
            net.set_scores(i, layer.scores, flags, layer.threshold)
    return net


def host_crc(chain, net):
    """CRC-32 of the host's trained tensors as the firmware computes it."""
    import zlib

    crc = 0
    for i, layer in enumerate(chain.layers):
        if layer.weights is None:
            continue
        if layer.scores is None:
            crc = zlib.crc32(net.get_weights(i).tobytes(), crc)
            continue
        scores = net.get_scores(i)
        if layer.scored is not None:
            scores = scores[layer.scored]
        crc = zlib.crc32(np.ascontiguousarray(scores).tobytes(), crc)
    return crc


def samples(chain, count, seed=0):
    """Inputs of which four in five are zero, as of digits, and labels."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 128, (count, chain.layers[0].in_size))
    x = (x * (rng.random(x.shape) < 0.2)).astype(np.int8)
    return x, rng.integers(0, chain.layers[-1].out_size, count).astype(np.int32)


def host_step(net, x, label):
    """One step of the native trainer; returns its logits."""
    net.train(np.ascontiguousarray(x[None]), np.array([label], np.int32), np.zeros(1, np.int32), 1)
    return net.output(len_of(net) - 1)


def len_of(net):
    """Number of layers of a native trainer."""
    count = 0
    while True:
        try:
            net.threshold(count)
        except ValueError:
            return count
        count += 1


def require_target(target):
    """Skip unless images of `target` can be built and run here."""
    from tflm_train._firmware.build import missing_tools
    from tflm_train._firmware.emulators import missing_emulator

    reason = missing_tools(target) or missing_emulator(target)
    if reason:
        pytest.skip(reason)
