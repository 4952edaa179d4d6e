"""The MLPerf Tiny models and EfficientNet-Lite0, where they lie beside the repository."""

import io

import numpy as np
import pytest

from converters import convert
from converters.float_model import classification_accuracy, float_predictor
from converters.loading import load_model
from tflm_train import Interpreter


def _cifar(shared_data, part, count):
    """The first `count` images of CIFAR-10 (JPEG), pixels 0 to 255, and their labels."""
    from PIL import Image

    with np.load(shared_data / "cifar10_jpeg_packed.npz") as file:
        packed, offset = file[f"{part}_jpeg"], file[f"{part}_offset"]
        images = [
            np.asarray(
                Image.open(io.BytesIO(packed[offset[i] : offset[i + 1]].tobytes())).convert("RGB")
            )
            for i in range(count)
        ]
        return np.stack(images).astype(np.float32), file[f"{part}_label"][:count]


def test_resnet8_loses_less_than_a_point_on_cifar10_jpeg(shared_data):
    path = shared_data / "models" / "pretrainedResnet.h5"
    images, labels = _cifar(shared_data, "test", 1000)
    interpreter = Interpreter(convert(path, calibration=_cifar(shared_data, "train", 100)[0]))
    before = classification_accuracy(float_predictor(path)([images]), labels)
    after = classification_accuracy(interpreter.predict(images), labels)
    assert 0.72 < before < 0.80
    assert abs(after - before) <= 0.01


@pytest.mark.parametrize(
    ("name", "ops", "layer"),
    [
        ("ad01.h5", {"FULLY_CONNECTED": 10}, "dense_9"),
        (
            "str_ww_ref_model.h5",
            {"DEPTHWISE_CONV_2D": 4, "CONV_2D": 4, "FULLY_CONNECTED": 1, "SOFTMAX": 1},
            "dense",
        ),
        (
            "vww_96.h5",
            {
                "CONV_2D": 14,
                "DEPTHWISE_CONV_2D": 13,
                "AVERAGE_POOL_2D": 1,
                "FULLY_CONNECTED": 1,
                "SOFTMAX": 1,
            },
            "dense",
        ),
    ],
)
def test_files_of_keras_2_convert_whole(shared_data, opened, name, ops, layer):
    path = shared_data / "models" / name
    model = load_model(path)
    shape = tuple(model.inputs[0].shape[1:])
    samples = np.random.default_rng(0).random((8, *shape)).astype(np.float32)
    result = opened(convert(model, calibration=samples))
    found = [op for op in result.ops if op != "RESHAPE"]
    assert {op: found.count(op) for op in found} == ops
    assert result.info.trainable[0].layer == layer
    real = result.run(samples[:2]).astype(float)
    output = result.graph.tensors[result.graph.outputs[0]].quantization
    real = (real - output.zeroPoint[0]) * output.scale[0]
    expected = float_predictor(model)([samples[:2]])
    spread = max(np.ptp(expected), 1 / 16)
    assert np.abs(real - expected).max() < 0.15 * spread


def test_efficientnet_lite0_converts_with_every_batch_normalisation_folded(shared_data, opened):
    path = shared_data / "models" / "efficientnet_lite0_imagenet.keras"
    result = opened(
        convert(path, calibration=np.random.default_rng(0).uniform(-1, 1, (2, 224, 224, 3)))
    )
    assert set(result.ops) == {
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "ADD",
        "MEAN",
        "FULLY_CONNECTED",
    } | ({"RESHAPE"} & set(result.ops))
    assert result.ops.count("ADD") == 9
    assert result.info.options["not_folded"] == []
