"""Calibration data: checked, cast and put in the model's input order before any converter runs."""

import dataclasses
import logging
import zipfile
import zlib
from pathlib import Path

import numpy as np

from converters.errors import CalibrationError

_LOGGER = logging.getLogger(__name__)

NOISE_SAMPLES = 32
# A largest magnitude this many times the 99.5th percentile of the rest leaves fewer than about
# ten int8 codes for the ordinary values.
OUTLIER_RATIO = 10.0


@dataclasses.dataclass(frozen=True)
class CalibrationData:
    """float32 samples per input, in the order of the model's inputs.

    Attributes:
      arrays: one array `[samples, ...]` per input.
      source: where they came from: `noise`, `arrays` or a file name.
      clip: percentile cut from both ends, or None.
    """

    arrays: tuple
    source: str
    clip: float | None = None

    @property
    def count(self):
        """Number of samples."""
        return len(self.arrays[0])

    def summary(self):
        """What the training entry keeps."""
        return {"samples": self.count, "source": self.source, "clip": self.clip}


def prepare(data, names, shapes, *, clip=None, normalization=None, samples=None, seed=0):
    """Turn what a user gives into `CalibrationData`.

    Args:
      data: None (noise), an `.npz` path, an array for a single input, a list in the order of the
        model's inputs, or a dict by input name.
      names: input names, in order.
      shapes: input shapes with batch 1, in order.
      clip: cut each input at this percentile and at 100 minus it.
      normalization: `{"scale": s, "offset": o}` applied as raw * s + o.
      samples: use this many, drawn evenly; None uses all.
      seed: seed of the noise.

    Raises:
      CalibrationError: a missing input, another shape, no samples, NaN or infinity.
    """
    if clip is not None and not 0 < clip < 50:
        raise CalibrationError(f"Expected calibration_clip between 0 and 50 percent, got {clip}")
    if samples is not None and samples < 1:
        raise CalibrationError(f"Expected 1 or more calibration samples, got {samples}")
    if data is None:
        return _noise(shapes, seed)
    source = "arrays"
    if isinstance(data, (str, Path)):
        source = Path(data).name
        data = load_npz(data, names)
    arrays = _by_input(data, names)
    arrays = [_shaped(a, n, s) for a, n, s in zip(arrays, names, shapes, strict=True)]
    counts = {name: len(array) for name, array in zip(names, arrays, strict=True)}
    if len(set(counts.values())) != 1:
        raise CalibrationError(f"Expected as many samples for every input, got {counts}")
    if not counts[names[0]]:
        raise CalibrationError("Expected at least one calibration sample, got none")
    result = []
    for name, array in zip(names, arrays, strict=True):
        if samples is not None and samples < len(array):
            array = array[np.linspace(0, len(array) - 1, samples).astype(int)]
        array = array.astype(np.float64)
        _refuse_nan(array, name)
        if normalization:
            array = array * normalization.get("scale", 1.0) + normalization.get("offset", 0.0)
        result.append(_ranged(array, name, clip).astype(np.float32))
    return CalibrationData(tuple(result), source, clip)


def load_npz(path, names):
    """Arrays of an `.npz` by input name; for one input `x`, `x_train` or a single array do too.

    Raises:
      CalibrationError: unreadable, or none of the expected keys.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            keys = list(file.keys())
            if all(name in keys for name in names):
                return {name: file[name] for name in names}
            if len(names) == 1:
                for key in ("x", "x_train", "x_test"):
                    if key in keys:
                        return {names[0]: file[key]}
                if len(keys) == 1:
                    return {names[0]: file[keys[0]]}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise CalibrationError(f"Expected an .npz file, got {path}: {error}") from error
    wanted = "'x', " if len(names) == 1 else ""
    raise CalibrationError(
        f"Expected {wanted}{', '.join(map(repr, names))} in {path}, got keys {keys}: name the "
        "arrays after the model's inputs"
    )


def _by_input(data, names):
    if isinstance(data, dict):
        missing = [n for n in names if n not in data]
        extra = [n for n in data if n not in names]
        if missing or extra:
            raise CalibrationError(
                f"Expected calibration data for inputs {names}, got {list(data)}: "
                f"missing {missing}, unknown {extra}"
            )
        return [np.asarray(data[n]) for n in names]
    if isinstance(data, (list, tuple)) and len(names) > 1:
        if len(data) != len(names):
            raise CalibrationError(
                f"Expected {len(names)} arrays in the order {names}, got {len(data)}"
            )
        return [np.asarray(a) for a in data]
    if len(names) > 1:
        raise CalibrationError(
            f"Expected a dict by input name or a list in the order {names}, got one "
            f"{type(data).__name__}"
        )
    if isinstance(data, (list, tuple)) and len(data) == 1 and np.ndim(data[0]) > 1:
        data = data[0]
    try:
        return [np.asarray(data)]
    except ValueError as error:
        raise CalibrationError(f"Expected samples of equal shape, got {error}") from error


def _shaped(array, name, shape):
    if array.dtype.kind not in "fiub":
        raise CalibrationError(f"Expected numbers for input {name!r}, got dtype {array.dtype}")
    sample = tuple(shape[1:])
    if array.shape[1:] == sample and array.ndim == len(sample) + 1:
        return array
    if array.shape == sample:
        return array[np.newaxis]
    if array.ndim == len(sample) + 2 and array.shape[1] == 1 and array.shape[2:] == sample:
        return array[:, 0]
    # Images without their channel axis are the one other form that has a single reading.
    if sample[-1:] == (1,) and array.shape[1:] == sample[:-1]:
        return array[..., np.newaxis]
    raise CalibrationError(
        f"Expected shape (samples, {', '.join(map(str, sample))}) for input {name!r}, got "
        f"{array.shape}"
    )


def _refuse_nan(array, name):
    bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    if bad.any():
        sample = int(np.flatnonzero(bad)[0])
        raise CalibrationError(
            f"Expected finite values, got NaN or infinity in sample {sample} of input {name!r} "
            f"({int(bad.sum())} of {len(array)} samples): clean the data first"
        )


def _ranged(array, name, clip):
    low, high = float(array.min()), float(array.max())
    if low == high == 0:
        _LOGGER.warning(
            "input %r: every calibration value is 0, so its range is unknown and taken as "
            "[-1, 1]; give real samples",
            name,
        )
        return array
    if clip is not None:
        cut = np.percentile(array, [clip, 100 - clip])
        if cut[0] == cut[1]:
            _LOGGER.warning(
                "input %r is left unclipped: percentiles %g and %g are both %g",
                name,
                clip,
                100 - clip,
                cut[0],
            )
            return array
        _LOGGER.info("input %r clipped from [%g, %g] to [%g, %g]", name, low, high, *cut)
        return np.clip(array, *cut)
    magnitude = np.abs(array[array != 0])
    ordinary = float(np.percentile(magnitude, 99.5))
    largest = float(magnitude.max())
    if largest > OUTLIER_RATIO * ordinary:
        low_cut, high_cut = np.percentile(array, [0.5, 99.5])
        _LOGGER.warning(
            "input %r: outliers: values reach [%g, %g] but 99 %% lie within [%g, %g] (percentiles "
            "0.5 and 99.5), so ordinary values share few of the 256 codes; consider "
            "calibration_clip=0.5",
            name,
            low,
            high,
            low_cut,
            high_cut,
        )
    return array


def _noise(shapes, seed):
    _LOGGER.warning(
        "NOT CALIBRATED: no calibration data, so the scales come from synthetic noise in [-1, 1] "
        "and the model is marked uncalibrated; its int8 accuracy means nothing. Give real samples "
        "(calibration=, --calibration x.npz)"
    )
    rng = np.random.default_rng(seed)
    return CalibrationData(
        tuple(
            rng.uniform(-1, 1, (NOISE_SAMPLES,) + tuple(s[1:])).astype(np.float32) for s in shapes
        ),
        "noise",
    )
