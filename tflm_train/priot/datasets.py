"""Images of the transfer experiment: rotated MNIST and CIFAR-10, split so that nothing leaks.

The leading five sixths of the train images (0 to 49,999 of MNIST) belong to pre-training and
calibration. The rotated training set and the rotated validation set are drawn from the rest, the
rotated test set from the test images. Settings are chosen on the validation set; the table's test
set is never looked at for a choice.
"""

import dataclasses
import logging
from pathlib import Path

import numpy as np

from converters.errors import DataError
from tflm_train.data import load_dataset, rotate

_log = logging.getLogger("tflm_train")

# Where data sets may lie, beside the repository that holds this package or that we stand in;
# nothing needs it.
SHARED = (Path(__file__).resolve().parents[2] / "../shared/data", Path("../shared/data"))


@dataclasses.dataclass(frozen=True)
class Source:
    """Upright uint8 images.

    Attributes:
      name: what every figure must say it was measured on.
      x_train: [n, height, width, channels] uint8.
      y_train: labels.
      x_test: images of the test part.
      y_test: their labels.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def pretraining(self):
        """Number of leading train images that belong to pre-training."""
        return len(self.x_train) * 5 // 6


@dataclasses.dataclass(frozen=True)
class Transfer:
    """int8 images [n, size] and labels of one rotated experiment."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_validation: np.ndarray
    y_validation: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def mnist_source(path=None):
    """MNIST from `path`, else from `../shared/data/mnist.npz` beside the repository, else digits.

    Args:
      path: an .npz with x_train, y_train, x_test, y_test, or None.

    Returns:
      A `Source`. The built-in digits are 5,000 MNIST train images; 1,000 of them stand in for the
      test set, and the name says so.

    Raises:
      DataError: a file without these arrays, or no data at all.

    Example:
      >>> from tflm_train.priot.datasets import mnist_source
      >>> mnist_source().x_train.dtype
      dtype('uint8')
    """
    path = path or _shared("mnist.npz")
    if path is not None:
        return _source("MNIST", path)
    name = "5,000 MNIST train digits (built in; 1,000 held out, not the official test set)"
    _log.warning("no full MNIST found: using %s", name)
    return _source(name, "digits")


def cifar10_source(path=None):
    """CIFAR-10 from an .npz of arrays, or of packed JPEG files (labelled as such).

    Raises:
      DataError: no such file, or one with other arrays.
    """
    path = path or _shared("cifar10_jpeg_packed.npz")
    if path is None:
        raise DataError("Expected CIFAR-10 as an .npz, got none: give its path with --data")
    with np.load(path, allow_pickle=False) as file:
        packed = "train_jpeg" in file.files
    return _source("CIFAR-10 (JPEG)" if packed else "CIFAR-10", path)


def _shared(name):
    return next((folder / name for folder in SHARED if (folder / name).exists()), None)


def _source(name, where):
    arrays = []
    for part in ("train", "test"):
        dataset = load_dataset(where, part=part)
        x, y = dataset.labelled()
        if x.dtype != np.uint8:
            raise DataError(f"Expected uint8 images in {where}, got {x.dtype}")
        order = np.random.default_rng(0).permutation(len(x)) if where == "digits" else slice(None)
        arrays += [(x if x.ndim == 4 else x[..., None])[order], y[order]]
    return Source(name, *arrays)


def to_int8(images):
    """uint8 images as the integer-only nets take them: x >> 1, one row per image."""
    return (np.asarray(images) >> 1).astype(np.int8).reshape(len(images), -1)


def transfer_set(source, degrees, *, train=1024, validation=1024, test=1024, seed=0):
    """The rotated experiment of the PRIOT paper, Section IV: `train` and `test` images at an angle.

    Args:
      source: a `Source`.
      degrees: rotation, counter-clockwise.
      train: rotated training images, drawn from what pre-training never saw.
      validation: further rotated images of that part, to choose settings on.
      test: rotated images of the test part.
      seed: of the draw; the images are the same for every run of a table.

    Returns:
      A `Transfer`; parts that would not fit are shortened.
    """
    rng = np.random.default_rng(seed)
    rest = source.pretraining + rng.permutation(len(source.x_train) - source.pretraining)
    train = min(train, len(rest) // 2)
    chosen, held_out = rest[:train], rest[train : train + validation]
    tested = rng.permutation(len(source.x_test))[:test]

    def part(x, y, index):
        return to_int8(rotate(x[index], degrees)), y[index].astype(np.int32)

    return Transfer(
        *part(source.x_train, source.y_train, chosen),
        *part(source.x_train, source.y_train, held_out),
        *part(source.x_test, source.y_test, tested),
    )
