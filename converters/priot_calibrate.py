"""Static shifts of the integer-only methods from pre-training data. PRIOT paper, Section III.

First the forward shifts; then, with those fixed, the backward shifts; then, with both, the bit
lengths of the updates. Samples whose error is all zero say nothing about a backward shift and are
left out. A forward shift is the mode; of values about as frequent, the one with the best accuracy
on the calibration data. Backward shifts follow a rule:

* `cover`: the shift that keeps 90 % of the samples' errors from saturating: errors keep their
  proportions, and training is far less noisy. The bit length of the updates is the median for
  scores, whose steps may saturate, and the largest for weights (NITI), whose steps must not.
* `mode`: the most frequent values, the paper's rule.

Arithmetic: converters/priot_passes.py.
"""

import dataclasses

import numpy as np

from converters.errors import CalibrationError
from converters.priot_passes import Pass

_BATCH = 32
# A shift is a candidate when it is at least this frequent, relative to the mode.
_CANDIDATE = 0.5


# Shares of the samples that a backward shift, a score's and a weight's update must cover.
RULES = {"cover": (0.9, 0.5, 1.0), "mode": (None, None, None)}


def calibrate(net, x, y, *, rule="cover", progress=None):
    """Set forward_shift, backward_shift and gradient_bits of every layer.

    Args:
      net: a `PriotNet` with int8 weights (and scores).
      x: int8 images [n, ...] of the pre-training set.
      y: their labels.
      rule: `cover` or `mode`, for what the backward pass uses.
      progress: called with (passes done, passes in all).

    Returns:
      A dict for the training entry: samples used and histograms.

    Raises:
      CalibrationError: every sample is classified with certainty, so that no error is left.
    """
    x = np.asarray(x, np.int8).reshape(len(x), *net.input_shape)
    y = np.asarray(y)
    report = {"samples": len(x), "forward": {}, "backward": {}, "gradient": {}}
    passes = 2 + len(net.weighted())
    done = _Counter(progress, passes)
    histogram = _collect(net, x, y, "forward")
    for layer in net.weighted():
        layer.forward_shift = _mode(histogram[layer.name])
    report["forward"] = _plain(histogram)
    done.step()
    _break_ties(net, x, y, histogram, done)
    histogram = _collect(net, x, y, "backward")
    if not histogram:
        raise CalibrationError(
            f"Expected calibration samples that leave an error, got {len(x)} that are all "
            "classified with certainty: give more samples, or samples of the pre-training set"
        )
    error_share, score_share, weight_share = RULES[rule]
    for layer in net.weighted()[1:]:
        layer.backward_shift = _pick(histogram.get(layer.name, {0: 1}), error_share)
    report["backward"] = _plain(histogram)
    histogram = _collect(net, x, y, "gradient")
    for layer in net.weighted():
        share = weight_share if layer.scores is None else score_share
        layer.gradient_bits = _pick(histogram.get(layer.name, {0: 1}), share)
    report["gradient"] = _plain(histogram)
    done.step()
    return report


def accuracy(net, x, y):
    """Share of samples the static net classifies right."""
    right = 0
    for begin in range(0, len(x), _BATCH):
        logits = Pass(net, x[begin : begin + _BATCH]).forward()
        right += int(np.sum(np.argmax(logits, 1) == y[begin : begin + _BATCH]))
    return right / max(len(x), 1)


@dataclasses.dataclass
class _Counter:
    progress: object
    total: int
    count: int = 0

    def step(self):
        self.count += 1
        if self.progress is not None:
            self.progress(self.count, self.total)


def _mode(histogram):
    return max(sorted(histogram), key=lambda shift: histogram[shift])


def _pick(histogram, share):
    """The smallest value that `share` of the samples do not exceed; the mode without a share."""
    if share is None:
        return _mode(histogram)
    total, seen = sum(histogram.values()), 0
    for value in sorted(histogram):
        seen += histogram[value]
        if seen >= share * total:
            break
    return value


def _plain(histogram):
    return {n: {str(k): int(v) for k, v in sorted(h.items())} for n, h in histogram.items()}


def _break_ties(net, x, y, histogram, done):
    for layer in net.weighted():
        counts = histogram[layer.name]
        top = max(counts.values())
        candidates = [s for s in sorted(counts) if counts[s] >= _CANDIDATE * top]
        if len(candidates) > 1:
            scores = {}
            for shift in candidates:
                layer.forward_shift = shift
                scores[shift] = accuracy(net, x, y)
            layer.forward_shift = max(candidates, key=lambda s: (scores[s], counts[s]))
        done.step()


def _collect(net, x, y, what):
    histogram = {}
    for begin in range(0, len(x), _BATCH):
        run = Pass(net, x[begin : begin + _BATCH], dynamic=what == "forward")
        run.forward()
        if what != "forward":
            run.backward(y[begin : begin + _BATCH], dynamic=what == "backward")
        for name, values in getattr(run, f"{what}_values").items():
            for value in values:
                counts = histogram.setdefault(name, {})
                counts[int(value)] = counts.get(int(value), 0) + 1
    return histogram
