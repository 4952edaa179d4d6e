"""Calibration data: what is accepted silently, warned about, or refused before TensorFlow runs."""

import logging
import warnings

import numpy as np
import pytest

from converters import convert
from converters.calibration import prepare
from converters.errors import CalibrationError


@pytest.fixture(scope="module")
def dense(keras):
    return keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(3, name="d")])


def _normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_nan_is_refused_with_its_sample_and_input_before_any_converter_runs(dense, bad):
    samples = _normal(10, 4)
    samples[6, 2] = bad
    with pytest.raises(CalibrationError, match="sample 6 of input 'x'"):
        convert(dense, calibration=samples)
    with pytest.raises(CalibrationError, match="sample 6 of input 'x'"):
        prepare(samples, ["x"], [(1, 4)])


def test_float64_and_integers_are_cast_and_the_batch_axis_is_added():
    for data in (
        np.zeros((5, 8, 8, 1)) + 0.5,
        np.full((5, 8, 8, 1), 3, np.uint8),
        np.full((8, 8, 1), 0.5),
        [np.full((8, 8, 1), 0.5)] * 3,
        [np.full((1, 8, 8, 1), 0.5)] * 3,
        np.full((5, 8, 8), 0.5),
    ):
        prepared = prepare(data, ["x"], [(1, 8, 8, 1)]).arrays[0]
        assert prepared.dtype == np.float32
        assert prepared.shape[1:] == (8, 8, 1)


def test_another_shape_is_refused_with_both_shapes():
    with pytest.raises(CalibrationError, match=r"\(samples, 8, 8, 1\).*\(5, 7, 8, 1\)"):
        prepare(np.zeros((5, 7, 8, 1)), ["x"], [(1, 8, 8, 1)])


@pytest.mark.parametrize(
    "data", [np.zeros((0, 4)), np.array([["a"] * 4]), {"y": np.zeros((2, 4))}, {}]
)
def test_no_samples_text_and_unknown_inputs_are_refused(data):
    with pytest.raises(CalibrationError):
        prepare(data, ["x"], [(1, 4)])


def test_all_zero_data_and_weights_give_finite_scales_and_warnings(keras, converted, caplog):
    zero = keras.layers.Dense(3, name="d", kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((4,), name="x"), zero])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        result = converted(model, calibration=np.zeros((5, 4)))
    for tensor in result.graph.tensors:
        scales = np.asarray(tensor.quantization.scale)
        assert np.all(np.isfinite(scales))
        assert np.all(scales > 1e-6)
    assert "'x'" in caplog.text
    assert "d/kernel" in caplog.text
    assert "d/fully_connected" in caplog.text


def _outlier_data():
    samples = _normal(100, 8)
    samples[37, 3] = 1e4
    return samples


@pytest.fixture(scope="module")
def dense8(keras):
    return keras.Sequential([keras.Input((8,), name="x"), keras.layers.Dense(4)])


def _codes(result, values):
    scale, zero = result.scales("x")[0], result.zero_point("x")
    return len(np.unique(np.clip(np.round(values / scale) + zero, -128, 127)))


def test_an_outlier_is_warned_about_and_clipping_restores_the_codes(dense8, converted, caplog):
    data = _outlier_data()
    ordinary = np.delete(data, 37, axis=0)
    with caplog.at_level(logging.WARNING):
        plain = converted(dense8, calibration=data)
    assert "input 'x'" in caplog.text
    assert "calibration_clip=0.5" in caplog.text
    assert _codes(plain, ordinary) <= 2
    clipped = converted(dense8, calibration=data, calibration_clip=0.5)
    assert _codes(clipped, ordinary) >= 150
    assert clipped.info.calibration == {"samples": 100, "source": "arrays", "clip": 0.5}


@pytest.mark.parametrize(
    "data",
    [
        _normal(200, 8),
        np.eye(8)[np.arange(100) % 8],
        np.random.default_rng(0).integers(0, 256, (100, 8)),
        np.random.default_rng(0).exponential(size=(100, 8)),
    ],
)
def test_ordinary_data_raise_no_outlier_warning(data, caplog):
    prepare(data, ["x"], [(1, 8)])
    assert not caplog.records


def test_clipping_never_flattens_sparse_data(caplog):
    data = np.zeros((1000, 4))
    data[0] = 1
    assert prepare(data, ["x"], [(1, 4)], clip=0.5).arrays[0].max() == 1
    assert "unclipped" in caplog.text


@pytest.mark.parametrize("clip", [0, -1, 50, 99])
def test_impossible_percentiles_are_refused(clip):
    with pytest.raises(CalibrationError, match="between 0 and 50"):
        prepare(np.zeros((2, 4)), ["x"], [(1, 4)], clip=clip)


@pytest.fixture(scope="module")
def two_inputs(keras):
    layers = keras.layers
    wide = keras.Input((4,), name="zeta")
    narrow = keras.Input((4,), name="alpha")
    joined = layers.Add()([layers.Dense(3)(wide), layers.Dense(3)(narrow)])
    return keras.Model([wide, narrow], joined)


@pytest.mark.parametrize("form", ["dict", "list", "npz"])
def test_several_inputs_are_matched_by_name_or_in_the_order_of_the_model(
    two_inputs, converted, tmp_path, form
):
    rng = np.random.default_rng(0)
    wide, narrow = rng.uniform(-50, 50, (50, 4)), rng.uniform(0, 1, (50, 4))
    data = {"alpha": narrow, "zeta": wide}
    if form == "list":
        data = [wide, narrow]
    if form == "npz":
        np.savez(tmp_path / "c.npz", **data)
        data = tmp_path / "c.npz"
    result = converted(two_inputs, calibration=data)
    assert result.scales("zeta")[0] == pytest.approx(0.39, rel=0.05)
    assert result.scales("alpha")[0] == pytest.approx(0.0039, rel=0.05)
    order = [result.graph.tensors[i].name for i in result.graph.inputs]
    assert order == [b"zeta", b"alpha"]
    assert result.info.calibration["source"] == ("c.npz" if form == "npz" else "arrays")


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((3, 4)),
        [np.zeros((3, 4))],
        {"zeta": np.zeros((3, 4))},
        {"zeta": np.zeros((3, 4)), "alpha": np.zeros((2, 4))},
    ],
)
def test_missing_inputs_and_unequal_counts_are_refused(data):
    with pytest.raises(CalibrationError):
        prepare(data, ["zeta", "alpha"], [(1, 4), (1, 4)])


@pytest.mark.parametrize("key", ["x", "x_train", "image", "anything"])
def test_an_npz_is_read_by_the_usual_names(tmp_path, key):
    np.savez(tmp_path / "d.npz", **{key: np.ones((3, 4))})
    assert prepare(tmp_path / "d.npz", ["image"], [(1, 4)]).count == 3


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not an npz"])
def test_a_damaged_npz_is_refused(tmp_path, content):
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(CalibrationError, match="d.npz"):
        prepare(tmp_path / "d.npz", ["x"], [(1, 4)])


def test_without_data_the_model_is_marked_uncalibrated_with_a_loud_warning(
    dense, converted, caplog
):
    result = converted(dense)
    assert result.info.calibrated is False
    assert result.info.calibration["source"] == "noise"
    assert "NOT CALIBRATED" in caplog.text
    assert converted(dense).raw == result.raw


def test_normalisation_is_applied_to_raw_calibration_data(dense, converted):
    raw_data = np.random.default_rng(0).integers(0, 256, (50, 4)).astype(np.uint8)
    normalization = {"scale": 1 / 255, "offset": -0.5}
    result = converted(dense, calibration=raw_data, normalization=normalization)
    assert result.scales("x")[0] == pytest.approx(1 / 255, rel=0.02)
    assert result.info.normalization == normalization


def test_progress_counts_the_samples(dense):
    calls = []
    convert(
        dense,
        calibration=_normal(30, 4),
        calibration_samples=7,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert calls == [(i, 7) for i in range(1, 8)]
