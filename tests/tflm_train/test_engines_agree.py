"""The same model on every engine: native and TFLM to the bit, TensorFlow's reference nearly so."""

import numpy as np
import pytest

from converters import metadata
from tflm_train import Interpreter

pytest.importorskip("tflite_micro", reason="the tflite-micro wheel is not installed")


@pytest.fixture(scope="module")
def logits(mnist_int8, digits):
    x = digits[1].x
    return {
        name: Interpreter(mnist_int8, engine=name).logits_int8(x).astype(int)
        for name in ("native", "tflm", "tf-ref", "litert")
    }


def test_native_gives_the_bits_of_tflm_on_a_thousand_digits(logits):
    assert np.array_equal(logits["native"], logits["tflm"])


def test_tensorflows_reference_differs_by_one_step_on_one_percent_at_most(logits):
    difference = np.abs(logits["tf-ref"] - logits["tflm"])
    assert difference.max() <= 1
    assert np.mean(difference > 0) <= 0.01
    assert np.array_equal(logits["tf-ref"].argmax(1), logits["tflm"].argmax(1))


def test_training_keeps_labels_normalisation_and_description(mnist_int8):
    pytest.importorskip("tensorflow_lite_support", reason="tflite-support is not installed")
    interpreter = Interpreter(mnist_int8)
    interpreter.set_weights("logits", -interpreter.weights("logits"))
    before, after = metadata.describe(mnist_int8), metadata.describe(interpreter.to_bytes())
    assert before == after
    assert before["labels"] == [str(d) for d in range(10)]
