"""The engine against TFLM on whole models: every output byte, at every instruction set."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tflm_train import _native

sys.path.insert(0, str(Path(__file__).parent))
from engine_models import mobilenet_v2_int8, random_inputs, tflm_outputs  # noqa: E402

pytest.importorskip(
    "tflite_micro.python.tflite_micro.runtime", reason="needs the tflite-micro wheel"
)

FILES = [
    "ad01_int8.tflite",
    "kws_ref_model.tflite",
    "vww_96_int8.tflite",
    "pretrainedResnet_quant.tflite",
]


def check(raw, samples, seed):
    """Engine outputs of a batch equal TFLM's, at every level."""
    x = random_inputs(_native.Engine(raw), samples, seed)
    expected = tflm_outputs(raw, x)
    for level in _native.simd_levels():
        got = _native.Engine(raw, simd=level).run(x)
        different = int((got != expected).reshape(samples, -1).any(1).sum())
        assert different == 0, f"{level}: {different} of {samples} samples differ"


@pytest.fixture(scope="module")
def mobilenet():
    return mobilenet_v2_int8()


@pytest.mark.parametrize("name", FILES)
def test_public_models_equal_tflm(shared_data, name):
    check((shared_data / "models" / name).read_bytes(), 8, 0)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FILES)
def test_public_models_equal_tflm_on_a_thousand_inputs(shared_data, name):
    check((shared_data / "models" / name).read_bytes(), 1000, 1)


def test_the_demo_model_equals_tflm(mnist_int8):
    check(mnist_int8, 20, 2)


@pytest.mark.nightly
def test_mobilenet_v2_equals_tflm_on_a_thousand_inputs(mobilenet):
    check(mobilenet, 1000, 4)


@pytest.mark.nightly
def test_efficientnet_lite0_equals_tflm_on_a_thousand_inputs(shared_data):
    from converters import convert

    rng = np.random.default_rng(0)
    path = shared_data / "models" / "efficientnet_lite0_imagenet.keras"
    samples = rng.uniform(-1, 1, (4, 224, 224, 3)).astype(np.float32)
    check(convert(path, calibration=samples), 1000, 5)


def test_every_tensor_of_a_dump_equals_the_partial_runs(shared_data):
    raw = (shared_data / "models" / "pretrainedResnet_quant.tflite").read_bytes()
    engine = _native.Engine(raw)
    x = random_inputs(engine, 1)
    dump = engine.dump(x)
    outputs = [t for op in engine.ops for t in op["outputs"]]
    assert set(dump) == {engine.inputs[0]["index"], *outputs}
    assert np.array_equal(dump[outputs[-1]], engine.run(x))
    for op in range(1, engine.num_ops):
        live = engine.live_tensors(op)
        feeds = {t: dump[t] for t in live}
        rest = engine.run_range(op, engine.num_ops, feeds, [outputs[-1]])
        assert np.array_equal(rest[0], dump[outputs[-1]]), f"cut before operator {op}"
