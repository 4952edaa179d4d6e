"""Models the benchmarks measure."""

import logging
import tempfile
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "models"
SHARED = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "models"


def mobilenet_v2(classes=10):
    """int8 MobileNetV2-0.35 at 96 x 96, random weights, sane batch normalisations; kept in /tmp."""
    cached = Path(tempfile.gettempdir()) / f"tflm_train_mobilenet_v2_035_96_{classes}.tflite"
    if cached.exists():
        return cached.read_bytes()
    import keras

    from converters import convert

    logging.getLogger("tflm_train").info("converting MobileNetV2-0.35")
    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV2(
        input_tensor=keras.Input(batch_shape=(1, 96, 96, 3)),
        alpha=0.35,
        weights=None,
        classes=classes,
    )
    rng = np.random.default_rng(1)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            n = layer.gamma.shape[0]
            gamma, variance = rng.uniform(0.5, 1.5, (2, n))
            beta, mean = rng.normal(0, 0.3, (2, n))
            layer.set_weights([gamma, beta, mean, variance])
    samples = rng.uniform(-1, 1, (8, 96, 96, 3)).astype(np.float32)
    raw = convert(model, calibration=samples)
    partial = cached.with_suffix(".part")
    partial.write_bytes(raw)
    partial.replace(cached)
    return raw


def models(names):
    """{name: bytes}: `mobilenet_v2`, or paths of .tflite files."""
    result = {}
    for name in names:
        if name == "mobilenet_v2":
            result["MobileNetV2-0.35, 96 x 96"] = mobilenet_v2()
        else:
            result[Path(name).stem] = Path(name).read_bytes()
    return result
