"""Models the engine's tests share."""

import numpy as np

from tflm_train import _native


def simd_levels():
    """Levels of this machine, and the emulated one where it runs."""
    levels = list(_native.simd_levels())
    return [*levels, "avx512vnni-emulated"] if "avx2" in levels else levels


def mobilenet_v2(classes=10):
    """MobileNetV2-0.35 at 96 x 96 with batch normalisations of sane random statistics."""
    import keras

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
            layer.set_weights(
                [
                    rng.uniform(0.5, 1.5, n),
                    rng.normal(0, 0.3, n),
                    rng.normal(0, 0.3, n),
                    rng.uniform(0.5, 1.5, n),
                ]
            )
    return model


def mobilenet_v2_int8(classes=10):
    """The same converted here."""
    from converters import convert

    rng = np.random.default_rng(0)
    samples = rng.uniform(-1, 1, (4, 96, 96, 3)).astype(np.float32)
    return convert(mobilenet_v2(classes), calibration=samples)


def random_inputs(engine, samples, seed=0):
    """int8 [samples, ...] for the engine's first input."""
    shape = engine.inputs[0]["shape"]
    rng = np.random.default_rng(seed)
    return rng.integers(-128, 128, (samples, *shape[1:]), dtype=np.int8)


def tflm_outputs(raw, x, arena_size=None):
    """What TFLM itself computes for each sample of x."""
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(bytes(bytearray(raw)), arena_size=arena_size)
    outputs = []
    for i in range(len(x)):
        interpreter.set_input(x[i : i + 1], 0)
        interpreter.invoke()
        outputs.append(interpreter.get_output(0).copy())
    return np.concatenate(outputs)
