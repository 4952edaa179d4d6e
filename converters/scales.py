"""From ranges and weights to fixed scales and zero points. TFLite quantisation specification.

real = scale * (code - zero_point); codes int8; weights symmetric in [-127, 127], trainable ones in
[-126, 126] so that a perturbation of one code never saturates.
"""

import dataclasses
import math

import numpy as np

WEIGHT_LIMIT = 127
TRAINABLE_LIMIT = 126


@dataclasses.dataclass(frozen=True)
class Quantization:
    """Scales (one, or one per channel), zero point and channel axis of a tensor."""

    scales: tuple
    zero_point: int = 0
    axis: int = 0

    @property
    def scale(self):
        """The only scale of a per-tensor quantisation."""
        return self.scales[0]


# SOFTMAX and LOGISTIC kernels write this one, whatever was calibrated.
PROBABILITY = Quantization((1 / 256,), -128)


def activation_quantization(low, high, *, power_of_two=False, headroom=1.0):
    """Scale and zero point that cover [low, high] and represent 0 exactly.

    Args:
      low: smallest value, taken as at most 0.
      high: largest value, taken as at least 0.
      power_of_two: scale 2^e and zero point 0 (stock-TFLM recipe of the integer-only family).
      headroom: how much wider than [low, high] the codes reach.
    """
    low, high = min(low, 0.0) * headroom, max(high, 0.0) * headroom
    if power_of_two:
        # 128 codes on the negative side: a range of exactly [0, 1] keeps exponent -7 and loses
        # only its topmost code, as uint8 images shifted by one do.
        return Quantization((power_of_two_scale(max(-low, high) / 128),))
    scale = (high - low) / 255
    from_low, from_high = -128 - low / scale, 127 - high / scale
    error_low = 128 + abs(low / scale)
    error_high = 127 + abs(high / scale)
    point = from_low if error_low < error_high else from_high
    return Quantization(
        (float(np.float32(scale)),), int(np.clip(round_half_away(point), -128, 127))
    )


def power_of_two_scale(least):
    """The smallest power of two that is not below `least` (0.01 % tolerance)."""
    return 2.0 ** math.ceil(math.log2(least) - 1e-4)


def weight_scales(weights, axis, *, limit, headroom, power_of_two, empty):
    """One scale (axis None) or one per entry of `axis`.

    Args:
      weights: float array.
      axis: channel axis, or None.
      limit: largest code.
      headroom: factor on the largest magnitude.
      power_of_two: round every scale up to a power of two.
      empty: largest magnitude to assume for all-zero weights.
    """
    magnitude = np.abs(np.asarray(weights, np.float64))
    if axis is None:
        peak = magnitude.max(keepdims=False, initial=0.0).reshape(1)
    else:
        peak = magnitude.max(axis=tuple(i for i in range(magnitude.ndim) if i != axis))
    # A dead channel takes the widest scale of the others: 0 would make its bias infinite.
    peak = np.where(peak > 0, peak, peak.max() if peak.max() > 0 else empty)
    scales = peak * headroom / limit
    if power_of_two:
        return np.array([power_of_two_scale(s) for s in scales])
    return scales.astype(np.float32).astype(np.float64)


def quantize_weights(weights, scales, axis, limit):
    """int8 codes of float weights under `weight_scales`."""
    shape = [1] * np.ndim(weights)
    if axis is not None:
        shape[axis] = -1
    codes = round_half_away(np.asarray(weights, np.float64) / np.reshape(scales, shape))
    return np.clip(codes, -limit, limit).astype(np.int8)


def quantize_values(values, quantization):
    """int8 codes of float activations."""
    codes = round_half_away(np.asarray(values, np.float64) / quantization.scale)
    return np.clip(codes + quantization.zero_point, -128, 127).astype(np.int8)


def round_half_away(values):
    """Round to nearest, halves away from zero, as the kernels' reference rounds."""
    values = np.asarray(values, np.float64)
    return np.sign(values) * np.floor(np.abs(values) + 0.5)
