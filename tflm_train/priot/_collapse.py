"""Tell a collapsed run from a slow one, and name the overflow behind it."""

import numpy as np

# One class is guessed for this share of the samples, and for this many times its own share.
_ONE_CLASS = 0.9
_TIMES_ITS_SHARE = 2.0
_SATURATED = 0.25
# Better than chance by this factor, spread over the classes and no worse than before: a slow run.
_SLOW = 1.5


class CollapseDetector:
    """Collects guesses over an epoch; `verdict` judges them and starts anew."""

    def __init__(self):
        self._best = 0.0
        self.reset()

    def reset(self):
        """Forget the epoch."""
        self._guesses, self._labels, self._right = None, [], 0

    def add(self, row, labels):
        """Count the result of a chunk of training."""
        guesses = np.asarray(row["predicted"])
        self._guesses = guesses if self._guesses is None else self._guesses + guesses
        self._labels.append(labels)
        self._right += row["correct"]

    def verdict(self, layers, classes):
        """A warning, or None.

        Args:
          layers: {name: native statistics} in order.
          classes: number of classes.
        """
        guesses, labels, right = self._guesses, self._labels, self._right
        self.reset()
        if guesses is None or guesses.sum() < 10 * classes:
            return None
        labels = np.concatenate(labels)
        share = guesses.max() / guesses.sum()
        own = float(np.mean(labels == int(guesses.argmax())))
        accuracy = right / len(labels)
        before, self._best = self._best, max(self._best, accuracy)
        spread = share < _TIMES_ITS_SHARE * own
        if spread and accuracy > _SLOW / classes and accuracy >= before:
            return None
        if accuracy > 2.0 / classes and (share < _ONE_CLASS or spread):
            return None
        if accuracy > max(2.0 / classes, own * _TIMES_ITS_SHARE):
            return None
        return (
            f"training collapsed: {100 * share:.0f} % of the samples are taken for class "
            f"{int(guesses.argmax())} (accuracy {100 * accuracy:.1f} %); {_cause(layers)}; lower "
            "mu, or convert again with more calibration data"
        )


def _cause(layers):
    found = []
    for name, s in layers.items():
        found += [
            (s["outputs_saturated"] / max(s["outputs_seen"], 1),
             f"outputs of layer {name!r} overflow int8 (static forward shift too small)"),
            (s["weights_at_limit"] / s["edges"] if not s["scored"] else 0.0,
             f"weights of layer {name!r} stand at +-127 (updates too large)"),
            (s["updates_saturated"] / max(s["updates"], 1),
             f"updates of layer {name!r} overflow int8 (static update shift too small)"),
            (s["errors_saturated"] / max(s["errors_seen"], 1),
             f"errors at layer {name!r} overflow int8 (static backward shift too small)"),
        ]  # fmt: skip
    share, what = max(found, key=lambda item: item[0])
    if share >= _SATURATED:
        return f"{100 * share:.0f} % of the {what}"
    dead = [n for n, s in layers.items() if s["outputs_seen"] and s["pruned"] == s["edges"]]
    if dead:
        return f"layer {dead[0]!r} is fully pruned"
    return f"largest overflow: {100 * share:.0f} % of the {what}"
