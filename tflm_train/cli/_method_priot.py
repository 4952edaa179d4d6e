"""Arguments and trainer of `train --method priot|priot-s|niti`."""


def add_arguments(group):
    """Declare the options of the integer-only methods."""


def make_trainer(args, method):
    """A trainer of the PRIOT family."""
    from converters.errors import UnsupportedModelError

    raise UnsupportedModelError(
        f"Expected a model for --method zo, got {method!r}: this release trains zo only"
    )
