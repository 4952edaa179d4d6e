import hashlib

import numpy as np
import pytest

from converters.errors import (
    DataError,
    ModelFormatError,
    StaleWeightsError,
    UnsupportedModelError,
)
from converters.flatbuffer import read_model, set_constant, write_model
from tflm_train import Interpreter

ENGINES = ["native", "litert", "litert-ref", "tf-ref", "tflm"]


@pytest.fixture(params=ENGINES)
def engine(request):
    if request.param == "tflm":
        pytest.importorskip("tflite_micro", reason="the tflite-micro wheel is not installed")
    return request.param


@pytest.fixture
def samples():
    return np.random.default_rng(0).integers(-128, 128, (8, 28, 28, 1)).astype(np.int8)


def rebuilt(raw, name, values):
    """A fresh model with other weights, the truth that in-place changes are held against."""
    model = read_model(raw)
    for tensor in model.subgraphs[0].tensors:
        if tensor.name.decode() == name:
            set_constant(model, tensor, values)
    return write_model(model)


def test_weights_written_in_place_are_never_stale(engine, mnist_int8, samples):
    interpreter = Interpreter(mnist_int8, engine=engine)
    name = interpreter.trainable[0].name
    rng = np.random.default_rng(1)
    for _ in range(5):
        values = rng.integers(-126, 127, (10, 128)).astype(np.int8)
        interpreter.set_weights(name, values)
        fresh = Interpreter(rebuilt(mnist_int8, name, values), engine=engine)
        assert np.array_equal(interpreter.logits_int8(samples), fresh.logits_int8(samples))


def test_frozen_weights_can_be_replaced_too(engine, mnist_int8, samples):
    interpreter = Interpreter(mnist_int8, engine=engine)
    name = next(n for n in interpreter.weight_names if interpreter.weights(n).ndim == 4)
    values = -interpreter.weights(name)
    interpreter.set_weights(name, values)
    fresh = Interpreter(rebuilt(mnist_int8, name, values), engine=engine)
    assert np.array_equal(interpreter.logits_int8(samples), fresh.logits_int8(samples))


def test_a_packing_engine_is_refused_for_trainable_tensors(mnist_int8):
    with pytest.raises(StaleWeightsError, match="packs weights.*engine='native'"):
        Interpreter(mnist_int8, engine="xnnpack")


def test_the_canary_finds_an_engine_that_keeps_old_weights(mnist_int8, monkeypatch):
    from tflm_train._engines.litert import XnnpackEngine

    # Without the declaration the comparison itself must notice.
    monkeypatch.setattr(XnnpackEngine, "packs_weights", False)
    with pytest.raises(StaleWeightsError, match="old weights of tensor"):
        Interpreter(mnist_int8, engine="xnnpack")


def test_a_packing_engine_may_run_the_frozen_prefix(mnist_int8, samples):
    interpreter = Interpreter(mnist_int8, engine="litert", prefix_engine="xnnpack")
    assert not interpreter.device_exact
    difference = interpreter.logits(samples) - Interpreter(mnist_int8, engine="litert").logits(
        samples
    )
    assert np.abs(difference).max() <= 8 * interpreter.logits_spec.scale


def test_the_callers_bytes_are_never_changed(engine, mnist_int8):
    raw = bytes(bytearray(mnist_int8))
    before = hashlib.sha256(raw).hexdigest()
    interpreter = Interpreter(raw, engine=engine)
    interpreter.set_weights("logits", np.zeros((10, 128), np.int8))
    assert hashlib.sha256(raw).hexdigest() == before


def test_setting_what_was_got_changes_no_byte(engine, mnist_int8):
    interpreter = Interpreter(mnist_int8, engine=engine)
    before = interpreter.to_bytes()
    for name in interpreter.weight_names:
        interpreter.set_weights(name, interpreter.weights(name))
    assert interpreter.to_bytes() == before


def test_returned_weights_are_copies_and_running_goes_on(engine, mnist_int8, samples):
    interpreter = Interpreter(mnist_int8, engine=engine)
    before = interpreter.logits_int8(samples)
    held = interpreter.weights("logits")
    held[:] = 0
    assert np.array_equal(interpreter.logits_int8(samples), before)
    assert interpreter.weights("logits").any()


def test_saved_weights_come_back_in_a_new_interpreter(mnist_int8, samples, tmp_path):
    interpreter = Interpreter(mnist_int8)
    values = np.random.default_rng(2).integers(-126, 127, (10, 128)).astype(np.int8)
    interpreter.set_weights("logits", values)
    interpreter.save(tmp_path / "m.tflite")
    again = Interpreter(tmp_path / "m.tflite")
    assert np.array_equal(again.weights("logits"), values)
    assert np.array_equal(again.logits_int8(samples), interpreter.logits_int8(samples))
    assert again.training_info == interpreter.training_info


def test_the_cut_model_gives_the_bits_of_the_whole(mnist_int8, samples):
    from tflm_train import _engines

    whole = _engines.create("litert", mnist_int8).run([samples])[0]
    assert np.array_equal(Interpreter(mnist_int8, engine="litert").logits_int8(samples), whole)


def test_predict_gives_real_values_of_the_quantised_logits(mnist_int8):
    interpreter = Interpreter(mnist_int8)
    x = np.random.default_rng(3).integers(0, 256, (4, 28, 28, 1)).astype(np.uint8)
    codes = interpreter.logits_int8(x)
    spec = interpreter.logits_spec
    expected = (codes.astype(np.float32) - spec.zero_point) * np.float32(spec.scale)
    np.testing.assert_allclose(interpreter.predict(x), expected, rtol=1e-6)


def test_input_is_normalised_then_rounded_to_the_nearest_code(mnist_int8):
    interpreter = Interpreter(mnist_int8)
    spec = interpreter.input_specs[0]
    x = np.arange(784, dtype=np.float64).reshape(1, 28, 28, 1) / 784 * 255
    got = interpreter.quantize(x)[0].astype(int)
    exact = x / 255 / spec.scale + spec.zero_point
    assert np.abs(got - np.clip(exact, -128, 127)).max() <= 0.501


def test_large_features_live_on_disk_and_are_the_same(mnist_int8, samples):
    from tflm_train._features import compute_features

    interpreter = Interpreter(mnist_int8)
    in_memory = interpreter.features(samples)
    mapped = compute_features(interpreter._prefix, [samples], memory_limit=10)
    assert isinstance(mapped[0], np.memmap)
    assert np.array_equal(mapped[0], in_memory[0])


def test_a_dump_holds_every_tensor(mnist_int8, samples):
    interpreter = Interpreter(mnist_int8)
    dumped = interpreter.dump(samples[:1])
    model = read_model(mnist_int8)
    assert len(dumped) == len(model.subgraphs[0].tensors)
    assert all(values is not None for values in dumped.values())
    logits = dumped[interpreter.logits_spec.name]
    assert np.array_equal(logits.reshape(1, -1), interpreter.logits_int8(samples[:1]))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((28, 28, 1), np.float32), r"add the batch axis"),
        (np.zeros((2, 32, 32, 3), np.uint8), r"got \[2, 32, 32, 3\]"),
        (np.full((1, 28, 28, 1), np.nan), "nan in sample 0"),
        ([np.zeros((1, 28, 28, 1)), np.zeros((1, 28, 28, 1))], "Expected 1 inputs, got 2"),
    ],
)
def test_data_that_do_not_fit_are_refused(mnist_int8, x, message):
    with pytest.raises(DataError, match=message):
        Interpreter(mnist_int8).predict(x)


def test_int16_activations_are_refused_by_name(mnist_int8):
    model = read_model(mnist_int8)
    tensor = model.subgraphs[0].tensors[model.subgraphs[0].operators[0].outputs[0]]
    tensor.type = 7  # INT16
    with pytest.raises(UnsupportedModelError, match="int16 activations unsupported: tensor"):
        Interpreter(write_model(model))


@pytest.mark.parametrize("cut", [0, 3, 100, 5000])
def test_truncated_and_foreign_files_are_refused(mnist_int8, cut, tmp_path):
    with pytest.raises(ModelFormatError, match="TFL3|truncated"):
        Interpreter(mnist_int8[:cut])
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with pytest.raises(ModelFormatError, match="no TFL3 identifier"):
        Interpreter(tmp_path / "x.png")


def test_an_unknown_engine_is_refused_with_the_choices(mnist_int8):
    with pytest.raises(ValueError, match="native, litert.*got 'onnx'"):
        Interpreter(mnist_int8, engine="onnx")
