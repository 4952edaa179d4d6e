"""The exact head on a device: the bits of its definition, and it learns."""

import zlib
from pathlib import Path

import numpy as np
import pytest
from tflm_programs import build, c_array, fields, model_array, need, run

from tflm_train import Interpreter, _native
from tflm_train.data import load_dataset, rotate
from tflm_train.zo._loss import loss_multiplier

MODEL = Path(__file__).parents[2] / "examples/models/mnist_cnn_int8.tflite"
RATE, SEED = 65536, 4


def exp2_negative(t):
    """docs/zo_arithmetic.md, "Loss of one sample", step 2."""
    table = np.round(2**20 * 2.0 ** (-np.arange(257) / 256)).astype(np.int64)
    i, f, e = (t >> 8) & 255, t & 255, t >> 16
    value = table[i] + (((table[i + 1] - table[i]) * f) >> 8)
    return np.where(e > 20, 0, value >> np.minimum(e, 40))


def reference_step(weights, features, zero_point, logits, label, multiplier, step):
    """docs/tflm.md, "Exact head", in NumPy."""
    q = logits.astype(np.int64)
    terms = exp2_negative((q.max() - q) * multiplier)
    error = (terms << 15) // terms.sum()
    error[label] -= 1 << 15
    move = (np.outer(error * RATE, features.astype(np.int64) - zero_point)) >> 22
    draws = rounding_draws(SEED, step, weights.size).reshape(weights.shape)
    return np.clip(weights - ((move + draws) >> 16), -126, 126)


def mix(x):
    x = np.asarray(x, np.uint32).copy()
    with np.errstate(over="ignore"):
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x7FEB352D)
        x ^= x >> np.uint32(15)
        x *= np.uint32(0x846CA68B)
        return x ^ (x >> np.uint32(16))


def rounding_draws(seed, step, size):
    with np.errstate(over="ignore"):
        key = mix(mix(mix(np.uint32(seed)) + np.uint32(step)) + np.uint32(0xFFFFFFFF))
        words = mix(key + np.arange(-(-size // 2), dtype=np.uint32) * np.uint32(0x9E3779B9))
    halves = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], 1)
    return halves.reshape(-1)[:size].astype(np.int64)


def rotated(count):
    x, y = load_dataset("digits").labelled()
    return rotate(x[:count], 90), y[:count].astype(np.int32)


def test_the_error_sums_to_zero_and_is_that_of_the_softmax():
    logits = np.array([10, -20, 127, 90], np.int8)
    scale = 0.05
    terms = exp2_negative((127 - logits.astype(np.int64)) * loss_multiplier(scale))
    p = (terms << 15) // terms.sum()
    real = np.exp(logits * scale) / np.exp(logits * scale).sum()
    np.testing.assert_allclose(p / 2**15, real, atol=2e-4)
    assert 2**15 - 4 <= p.sum() <= 2**15
    assert _native.ZO_MAX_Q >= 1


@pytest.mark.parametrize("machine", ["tflm-host"])
def test_the_exact_head_has_the_bits_of_its_definition_and_learns(machine, tmp_path_factory):
    x, y = rotated(60)
    correct = passes_equal(need(machine), tmp_path_factory, MODEL.read_bytes(), x, y, 6)
    assert correct[-1] > correct[0] + 5, correct


REAL_BOARDS = ["tflm-rp2040", "tflm-m55-reference", "tflm-m55-cmsis-nn", "tflm-m55-cmsis-nn-size"]


@pytest.fixture(scope="module")
def small_model():
    """(bytes, samples, labels) of a net that an emulated board runs in no time."""
    keras = pytest.importorskip("keras")
    from converters import convert

    layers = keras.layers
    keras.utils.set_random_seed(0)
    net = [layers.Conv2D(4, 3, strides=2, activation="relu"), layers.Flatten(), layers.Dense(6)]
    x = np.random.default_rng(0).random((32, 8, 8, 1)).astype(np.float32)
    raw = convert(keras.Sequential([keras.Input((8, 8, 1)), *net]), calibration=x)
    return raw, x, (np.arange(32) % 6).astype(np.int32)


@pytest.mark.parametrize("machine", REAL_BOARDS)
def test_fifty_steps_of_the_exact_head_have_the_same_bits_on_boards(
    machine, small_model, tmp_path_factory
):
    passes_equal(need(machine), tmp_path_factory, *small_model, 2)


def passes_equal(machine, cache, raw, x, y, passes):
    """Right answers per pass of the program, whose every pass must equal the definition."""
    samples = len(x)
    interpreter = Interpreter(raw)
    spec = interpreter.logits_spec
    features = interpreter.features(x)[0]
    engine, item = interpreter.suffix, interpreter.trainable[0]
    zero_point = engine.inputs[0].zero_point
    codes = interpreter.quantize(x)[0]
    header = (
        model_array(raw)
        + c_array("kSamples", codes.reshape(samples, -1), "int8_t")
        + c_array("kLabels", y, "int32_t")
        + f"constexpr int32_t kPasses = {passes}, kSampleCount = {samples};\n"
        + f"constexpr uint32_t kRateQ16 = {RATE};\n"
        + f"constexpr bool kMaxPool = {str(raw == MODEL.read_bytes()).lower()};\n"
        + "constexpr unsigned kArenaBytes = 90000, kMemoryBytes = 20000;\n"
    )
    code, lines = run(machine, build(machine, cache, ["head_steps.cc"], header))
    assert code == 0, lines[-5:]
    assert fields(lines, "begin") == [[0]], lines
    found, step = fields(lines, "pass"), 0
    weights = engine.read(item.tensor).astype(np.int64)
    correct = []
    for number in range(passes):
        right = 0
        for i in range(samples):
            engine.write(item.tensor, weights.astype(np.int8))
            logits = engine.run([features[i : i + 1]])[0].ravel()
            right += int(logits.argmax() == y[i])
            flat = features[i].ravel()
            weights = reference_step(
                weights, flat, zero_point, logits, y[i], loss_multiplier(spec.scale), step
            )
            step += 1
        crc = zlib.crc32(weights.astype(np.int8).tobytes())
        assert found[number] == [0, step, right, crc], number
        correct.append(right)
    return correct
