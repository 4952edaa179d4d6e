"""Typed errors of the whole product: each message names the expected, the found, the way out."""


class TflmTrainError(Exception):
    """Base class: everything the product refuses derives from it."""


class ModelFormatError(TflmTrainError, ValueError):
    """The bytes are not a well-formed TFLite flatbuffer."""


class UnsupportedModelError(TflmTrainError, ValueError):
    """The model is well formed but holds something the product cannot run or train."""


class ConversionError(TflmTrainError, ValueError):
    """A Keras model cannot be converted: the message lists every reason at once."""


class CalibrationError(TflmTrainError, ValueError):
    """The calibration data do not fit the model (shape, dtype, NaN, missing input)."""


class DataError(TflmTrainError, ValueError):
    """A data set cannot be read or does not fit the model."""


class StaleWeightsError(TflmTrainError, RuntimeError):
    """An engine would go on computing with weights it packed earlier."""


class TrainingError(TflmTrainError, RuntimeError):
    """Training cannot go on: NaN loss, collapsed layer, exhausted range."""


class CheckpointError(TflmTrainError, RuntimeError):
    """A checkpoint is torn, of another model or of another version."""
