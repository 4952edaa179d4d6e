"""Initial scores and the choice of scored edges. PRIOT paper, Section III."""

import numpy as np

from converters.errors import ConversionError

SELECTIONS = ("random", "weight")


def check_scores(selection, pruned_share, init, threshold):
    """Refuse score options out of range.

    Raises:
      ConversionError: with the option's name.
    """
    if selection not in SELECTIONS:
        raise ConversionError(f"Expected selection of {SELECTIONS}, got {selection!r}")
    if not 0 <= pruned_share < 1:
        raise ConversionError(
            f"Expected a share of unscored edges from 0 to below 1, got {pruned_share}"
        )
    if not -128 <= threshold <= 127:
        raise ConversionError(f"Expected a threshold from -128 to 127, got {threshold}")
    mean, deviation = init
    if not (-128 <= mean <= 127 and 0 <= deviation <= 128):
        raise ConversionError(f"Expected init (mean, deviation) within int8, got {init}")


def initialise(layers, *, sparse, selection, unscored, init, threshold, seed):
    """Give every layer scores, in place.

    Args:
      layers: layers with weights.
      sparse: PRIOT-S: only a share of the edges gets scores.
      selection: `random` edges or those of the largest |weight|.
      unscored: share p of edges without a score.
      init: (mean, standard deviation) of the initial scores.
      threshold: edges with a lower score are pruned.
      seed: of the scores and of the random selection.
    """
    rng = np.random.default_rng(seed)
    for layer in layers:
        size = layer.weights.size
        values = np.rint(rng.normal(init[0], init[1], size))
        layer.scores = np.clip(values, -128, 127).astype(np.int8)
        layer.threshold = threshold
        layer.scored = None
        if not sparse:
            continue
        count = max(round(size * (1 - unscored)), 1)
        if selection == "random":
            chosen = rng.permutation(size)[:count]
        else:
            magnitude = np.abs(layer.weights.astype(np.int16))
            chosen = np.argsort(-magnitude, kind="stable")[:count]
        layer.scored = np.zeros(size, bool)
        layer.scored[chosen] = True
        layer.scores[~layer.scored] = 0
