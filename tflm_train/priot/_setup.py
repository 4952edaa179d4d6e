"""Options given to a trainer over those stored in the file."""

from converters.errors import TrainingError
from converters.priot_scores import check_scores, initialise


def merge_options(net, given):
    """Put the given options into `net.options`; returns (mu, schedule).

    Raises:
      TrainingError: dynamic shifts for a net with biases.
    """
    found = net.options
    names = ("rounding_forward", "rounding_backward", "rounding_update")
    for name, value in zip(
        names, (given.rounding, given.rounding, given.rounding_update), strict=True
    ):
        if value is not None:
            found[name] = value
    if given.masked_backward is not None:
        found["masked_backward"] = given.masked_backward
    if given.dynamic and any(layer.bias is not None for layer in net.weighted()):
        raise TrainingError(
            "Expected a net without biases for dynamic shifts, got one with: an int32 bias belongs "
            "to one scale; train with static shifts"
        )
    mu = found.get("mu", 2) if given.mu is None else given.mu
    return mu, given.mu_schedule or found.get("mu_schedule", "decayed")


def initialise_scores(net, given):
    """Draw new scores and thresholds where the options ask for them."""
    layers = net.weighted()
    if layers[0].scores is None:
        return
    if given.threshold is not None:
        for layer in layers:
            layer.threshold = given.threshold
    if given.init is None:
        return
    sparse = net.method == "priot-s"
    selection = given.selection or net.options.get("selection", "weight")
    unscored = given.unscored
    if unscored is None:
        unscored = net.options.get("unscored", 0.9)
    check_scores(selection, unscored if sparse else 0.0, given.init, layers[0].threshold)
    initialise(
        layers,
        sparse=sparse,
        selection=selection,
        unscored=unscored,
        init=given.init,
        threshold=layers[0].threshold,
        seed=given.seed,
    )
    net.options |= {"init": list(given.init), "seed": given.seed}
