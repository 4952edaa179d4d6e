"""Random single-operator models with inputs and the reference's outputs; sizes hit vector tails."""

import numpy as np
import reference_functions as functions
import reference_kernels as ref
from single_op import ACTIVATIONS, SingleOp

# Around the 8, 16 and 32 lanes of the vector kernels.
CHANNELS = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40]


def _scale(rng, low=1e-3, high=0.3):
    return np.float32(np.exp(rng.uniform(np.log(low), np.log(high))))


def _zero(rng):
    return int(rng.choice([-128, 0, 127, rng.integers(-128, 128)]))


def _int8(rng, shape, least=-128):
    """Values that reach the ends of the range often."""
    x = rng.integers(least, 128, shape)
    ends = rng.random(shape)
    x = np.where(ends < 0.05, least, np.where(ends > 0.95, 127, x))
    return x.astype(np.int8)


def _activation(rng):
    return str(rng.choice(list(ACTIVATIONS)))


def _bias(rng, channels):
    if rng.random() < 0.3:
        return None
    return rng.integers(-(2**14), 2**14, channels).astype(np.int32)


def _filter_scales(rng, channels, output_scale, input_scale, depth):
    """Scales that keep most outputs in range; sometimes so large that the shift goes left."""
    count = channels if rng.random() < 0.6 and channels > 1 else 1
    base = output_scale / input_scale / np.sqrt(depth)
    spread = 10 ** rng.uniform(-3, 0.5 if rng.random() < 0.9 else 3, count)
    return (base * spread).astype(np.float32)


def conv(rng, depthwise=False):
    """CONV_2D or DEPTHWISE_CONV_2D: (model, [input], output)."""
    kernel = tuple(int(k) for k in rng.choice([1, 1, 2, 3, 3, 5], 2))
    stride = tuple(int(s) for s in rng.choice([1, 1, 2, 3], 2))
    dilation = tuple(int(d) for d in rng.choice([1, 1, 1, 2], 2))
    same = bool(rng.integers(2))
    least = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = [int(rng.integers(1 if same else n, n + 8)) for n in least]
    depth = int(rng.choice(CHANNELS))
    input_scale, output_scale = _scale(rng), _scale(rng)
    input_zero, output_zero = _zero(rng), _zero(rng)
    activation = _activation(rng)
    x = _int8(rng, (int(rng.integers(1, 4)), *size, depth))
    if depthwise:
        multiple = int(rng.choice([1, 1, 1, 2, 3]))
        channels = depth * multiple
        w = _int8(rng, (1, *kernel, channels), -127)
    else:
        groups = 2 if depth % 2 == 0 and rng.random() < 0.15 else 1
        channels = int(rng.choice(CHANNELS)) * groups
        w = _int8(rng, (channels, *kernel, depth // groups), -128 if rng.random() < 0.2 else -127)
    scales = _filter_scales(rng, channels, output_scale, input_scale, w[0].size * 5000)
    bias = _bias(rng, channels)
    rule = ref.same_padding if same else ref.valid_padding
    out_size = [rule(*args)[0] for args in zip(size, kernel, stride, dilation, strict=True)]
    options = {
        "padding": 0 if same else 1,
        "strideH": stride[0],
        "strideW": stride[1],
        "dilationHFactor": dilation[0],
        "dilationWFactor": dilation[1],
        "fusedActivationFunction": ACTIVATIONS[activation],
    }
    if depthwise:
        options["depthMultiplier"] = multiple
    m = SingleOp("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", **options)
    inputs = [
        m.activation([1, *size, depth], input_scale, input_zero),
        m.constant(w, scales, dimension=3 if depthwise else 0),
        -1 if bias is None else m.constant(bias, scales * input_scale),
    ]
    if depthwise and bias is None:
        inputs.pop()  # TFLM's depthwise kernel crashes on an index of -1
    raw = m.build(inputs, m.activation([1, *out_size, channels], output_scale, output_zero))
    multiplier, shift = ref.conv_scales(input_scale, scales, output_scale)
    low, high = ref.activation_range(activation, output_scale, output_zero)
    expected = (ref.depthwise if depthwise else ref.conv2d)(
        x,
        w,
        bias,
        zero_point=input_zero,
        stride=stride,
        dilation=dilation,
        same=same,
        multiplier=multiplier,
        shift=shift,
        offset=output_zero,
        low=low,
        high=high,
    )
    return raw, [x], expected


def depthwise(rng):
    """DEPTHWISE_CONV_2D."""
    return conv(rng, depthwise=True)


def dense(rng):
    """FULLY_CONNECTED with one scale or one per output."""
    depth = int(rng.choice([1, 2, 15, 31, 32, 33, 64, 100, 257]))
    outputs = int(rng.choice(CHANNELS))
    input_scale, output_scale = _scale(rng), _scale(rng)
    input_zero, output_zero = _zero(rng), _zero(rng)
    activation = _activation(rng)
    x = _int8(rng, (int(rng.integers(1, 14)), depth))
    w = _int8(rng, (outputs, depth), -127)
    scales = _filter_scales(rng, outputs, output_scale, input_scale, depth * 5000)
    bias = _bias(rng, outputs)
    m = SingleOp("FULLY_CONNECTED", fusedActivationFunction=ACTIVATIONS[activation])
    inputs = [
        m.activation([1, depth], input_scale, input_zero),
        m.constant(w, scales),
        -1 if bias is None else m.constant(bias, scales * input_scale),
    ]
    raw = m.build(inputs, m.activation([1, outputs], output_scale, output_zero))
    multiplier, shift = ref.conv_scales(input_scale, scales, output_scale)
    low, high = ref.activation_range(activation, output_scale, output_zero)
    expected = ref.dense(
        x,
        w,
        bias,
        zero_point=input_zero,
        multiplier=multiplier,
        shift=shift,
        offset=output_zero,
        low=low,
        high=high,
    )
    return raw, [x], expected


def pool(rng, average=False):
    """MAX_POOL_2D or AVERAGE_POOL_2D."""
    kernel = tuple(int(k) for k in rng.integers(1, 6, 2))
    stride = tuple(int(s) for s in rng.integers(1, 4, 2))
    same = bool(rng.integers(2))
    size = [int(rng.integers(1 if same else k, k + 8)) for k in kernel]
    depth = int(rng.choice(CHANNELS))
    scale, zero = _scale(rng), _zero(rng)
    activation = _activation(rng)
    x = _int8(rng, (int(rng.integers(1, 4)), *size, depth))
    rule = ref.same_padding if same else ref.valid_padding
    out_size = [rule(s, k, t, 1)[0] for s, k, t in zip(size, kernel, stride, strict=True)]
    m = SingleOp(
        "AVERAGE_POOL_2D" if average else "MAX_POOL_2D",
        padding=0 if same else 1,
        strideH=stride[0],
        strideW=stride[1],
        filterHeight=kernel[0],
        filterWidth=kernel[1],
        fusedActivationFunction=ACTIVATIONS[activation],
    )
    raw = m.build(
        [m.activation([1, *size, depth], scale, zero)],
        m.activation([1, *out_size, depth], scale, zero),
    )
    low, high = ref.activation_range(activation, scale, zero)
    function = ref.average_pool if average else ref.max_pool
    return raw, [x], function(x, kernel, stride, same, low, high)


def average_pool(rng):
    """AVERAGE_POOL_2D."""
    return pool(rng, average=True)


def mean(rng):
    """MEAN over random axes, keeping the batch or not."""
    shape = [1, *(int(d) for d in rng.integers(1, 8, 2)), int(rng.choice(CHANNELS))]
    axes = [(1, 2), (1,), (2,), (3,), (1, 2, 3), (2, 1)][rng.integers(6)]
    keep = bool(rng.integers(2))
    si, so = _scale(rng), _scale(rng)
    zi, zo = _zero(rng), _zero(rng)
    x = _int8(rng, (3, *shape[1:]))
    out_shape = [1 if a in axes else d for a, d in enumerate(shape) if keep or a not in axes]
    m = SingleOp("MEAN", keepDims=keep)
    raw = m.build(
        [m.activation(shape, si, zi), m.constant(np.array(axes, np.int32))],
        m.activation(out_shape, so, zo),
    )
    expected = ref.mean(x, axes, input_zero=zi, output_zero=zo, input_scale=si, output_scale=so)
    return raw, [x], expected.reshape(3, *out_shape[1:])


def binary(rng, name="ADD"):
    """ADD or MUL of two activations, broadcast or not."""
    shape = [1, *(int(d) for d in rng.integers(1, 6, 2)), int(rng.choice(CHANNELS))]
    shapes = [list(shape), list(shape)]
    if rng.random() < 0.5:
        for axis in (1, 2, 3):
            if rng.random() < 0.5:
                shapes[rng.integers(2)][axis] = 1
    scales = [_scale(rng), _scale(rng), _scale(rng, 1e-2 if name == "ADD" else 1e-4)]
    zeros = [_zero(rng) for _ in range(3)]
    activation = _activation(rng)
    a, b = (_int8(rng, (2, *s[1:])) for s in shapes)
    m = SingleOp(name, fusedActivationFunction=ACTIVATIONS[activation])
    inputs = [m.activation(s, scales[i], zeros[i]) for i, s in enumerate(shapes)]
    out_shape = np.broadcast_shapes(*shapes)
    raw = m.build(inputs, m.activation(out_shape, scales[2], zeros[2]))
    low, high = ref.activation_range(activation, scales[2], zeros[2])
    function = ref.add if name == "ADD" else ref.mul
    return raw, [a, b], function(a, b, scales=scales, zeros=zeros, low=low, high=high)


def mul(rng):
    """MUL."""
    return binary(rng, "MUL")


def pointwise(rng):
    """QUANTIZE, RELU, RELU6, LEAKY_RELU or LOGISTIC."""
    name = str(rng.choice(["QUANTIZE", "RELU", "RELU6", "LEAKY_RELU", "LOGISTIC"]))
    size = int(rng.choice([1, 15, 16, 17, 64]))
    si, so = _scale(rng), _scale(rng)
    zi, zo = _zero(rng), _zero(rng)
    x = np.concatenate([np.arange(-128, 128), rng.integers(-128, 128, 63 * size)])
    x = x[: len(x) // size * size].reshape(-1, size).astype(np.int8)
    options = {}
    if name == "LOGISTIC":
        so, zo = 1 / 256, -128
        expected = functions.logistic(x, si, zi)
    elif name == "LEAKY_RELU":
        options["alpha"] = alpha = float(np.float32(rng.choice([0.01, 0.2, 1.5, -0.3])))
        expected = functions.leaky_relu(x, alpha, si, zi, so, zo)
    elif name == "RELU6":
        so, zo = si, zi
        expected = np.clip(x, *ref.activation_range("relu6", si, zi)).astype(np.int8)
    elif name == "RELU":
        expected = functions.relu(x, si, zi, so, zo)
    else:
        expected = functions.requantize(x, si, zi, so, zo)
    m = SingleOp(name, **options)
    raw = m.build([m.activation([1, size], si, zi)], m.activation([1, size], so, zo))
    return raw, [x], expected


def softmax(rng):
    """SOFTMAX of rows, scales from nearly uniform to one-hot."""
    classes = int(rng.choice([1, 2, 3, 10, 12, 100]))
    scale = _scale(rng, 1e-4, 30.0)
    beta = float(np.float32(rng.choice([1.0, 1.0, 0.5])))
    x = _int8(rng, (4, classes))
    m = SingleOp("SOFTMAX", beta=beta)
    raw = m.build(
        [m.activation([1, classes], scale, _zero(rng))],
        m.activation([1, classes], 1 / 256, -128),
    )
    return raw, [x], functions.softmax(x, scale, beta)


def pad(rng):
    """PAD and PADV2 of images."""
    shape = [1, *(int(d) for d in rng.integers(1, 6, 3))]
    amounts = rng.integers(0, 3, (4, 2)).astype(np.int32)
    amounts[0] = 0
    scale, zero = _scale(rng), _zero(rng)
    x = _int8(rng, (2, *shape[1:]))
    two = bool(rng.integers(2))
    value = zero
    m = SingleOp("PADV2" if two else "PAD")
    inputs = [m.activation(shape, scale, zero), m.constant(amounts)]
    if two:
        value = int(rng.integers(-128, 128))
        inputs.append(m.constant(np.array([value], np.int8), [scale], [zero]))
    out_shape = [int(d + a.sum()) for d, a in zip(shape, amounts, strict=True)]
    raw = m.build(inputs, m.activation(out_shape, scale, zero))
    return raw, [x], np.pad(x, amounts, constant_values=value)


def concatenation(rng):
    """CONCATENATION of one to four inputs along any axis but the batch."""
    axis = int(rng.integers(1, 4))
    base = [1, *(int(d) for d in rng.integers(1, 6, 3))]
    scale, zero = _scale(rng), _zero(rng)
    shapes = []
    for _ in range(int(rng.integers(1, 5))):
        shape = list(base)
        shape[axis] = int(rng.integers(1, 18))
        shapes.append(shape)
    m = SingleOp("CONCATENATION", axis=axis if rng.integers(2) else axis - 4)
    inputs = [m.activation(s, scale, zero) for s in shapes]
    arrays = [_int8(rng, (2, *s[1:])) for s in shapes]
    expected = np.concatenate(arrays, axis)
    raw = m.build(inputs, m.activation([1, *expected.shape[1:]], scale, zero))
    return raw, arrays, expected


KINDS = {
    "conv": conv,
    "depthwise": depthwise,
    "dense": dense,
    "max_pool": pool,
    "average_pool": average_pool,
    "mean": mean,
    "add": binary,
    "mul": mul,
    "pointwise": pointwise,
    "softmax": softmax,
    "pad": pad,
    "concatenation": concatenation,
}
