"""`tflm-train convert` and `tflm-train three-stage` as a user types them."""

import argparse
import os

import numpy as np
import pytest

from converters import metadata
from converters.errors import TflmTrainError
from converters.flatbuffer import read_model
from converters.quiet import import_keras
from converters.training_info import read_training_info
from tflm_train.cli import convert as convert_command
from tflm_train.cli import three_stage as three_stage_command


def _run(command, *argv):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(a) for a in argv]))


def _info(path):
    return read_training_info(read_model(path.read_bytes()))


@pytest.fixture
def folder(tmp_path):
    """A folder with m.h5 and, elsewhere, labelled raw data."""
    keras = import_keras()
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((6,), name="x"),
            keras.layers.Dense(8, activation="relu", name="hidden"),
            keras.layers.Dense(2, activation="softmax", name="head"),
        ]
    )
    model.save(tmp_path / "m.h5")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    x = np.clip(rng.normal(128, 30, (300, 6)) + 40 * (2 * y[:, None] - 1), 0, 255).astype(np.uint8)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    return tmp_path


def test_a_model_with_labelled_data_converts_and_shows_both_accuracies(folder, capsys):
    status = _run(
        convert_command,
        folder / "m.h5",
        *("--calibration", folder / "data.npz", "--output", folder / "out.tflite"),
        *("--input-scale", 1 / 255, "--labels", "low,high", "--description", "two heaps"),
        *("--evaluate", folder / "data.npz", "--evaluate-samples", 100),
        *("--trainable", "last:2", "--weight-headroom", 2, "--calibration-samples", 50),
    )
    assert status == 0
    shown = capsys.readouterr().out
    assert "accuracy on 100 samples of data.npz: float" in shown
    assert "FULLY" in shown
    info = _info(folder / "out.tflite")
    assert info.calibrated
    assert info.calibration["samples"] == 50
    assert [t.layer for t in info.trainable] == ["hidden", "head"]
    assert info.labels == ("low", "high")
    assert info.normalization["scale"] == pytest.approx(1 / 255)
    found = metadata.describe((folder / "out.tflite").read_bytes())
    assert found["description"] == "two heaps"


def test_the_model_alone_takes_data_of_its_name_beside_it(folder, capsys):
    os.rename(folder / "data.npz", folder / "m.npz")
    assert _run(convert_command, folder / "m.h5") == 0
    assert _info(folder / "m.tflite").calibrated
    assert "m.npz" in capsys.readouterr().out


def test_with_no_data_at_all_the_model_is_marked_uncalibrated_and_says_so(folder, capsys, caplog):
    assert _run(convert_command, folder / "m.h5") == 0
    assert not _info(folder / "m.tflite").calibrated
    assert "NOT CALIBRATED" in caplog.text
    assert "UNCALIBRATED" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["--calibration", "none.npz"],
        ["--trainable", "nope"],
        ["--calibration-clip", "60"],
        ["--output", "none/m.tflite"],
        ["--weight-headroom", "0.1"],
        ["--method", "priot", "--mu", "9"],
    ],
)
def test_a_refusal_leaves_no_file(folder, monkeypatch, arguments):
    monkeypatch.chdir(folder)
    before = sorted(os.listdir(folder))
    with pytest.raises(TflmTrainError):
        _run(convert_command, "m.h5", *arguments)
    assert sorted(os.listdir(folder)) == before


def test_an_unknown_method_is_refused_by_the_parser(folder, capsys):
    with pytest.raises(SystemExit) as stopped:
        _run(convert_command, folder / "m.h5", "--method", "sgd")
    assert stopped.value.code == 2
    assert "priot" in capsys.readouterr().err


def test_label_files_give_one_class_a_line(folder):
    (folder / "names.txt").write_text("low\nhigh\n\n")
    assert convert_command.read_labels(str(folder / "names.txt")) == ("low", "high")
    assert convert_command.read_labels("a, b") == ("a", "b")
    assert convert_command.read_labels(None) == ()


def test_several_inputs_calibrate_from_arrays_of_their_names(tmp_path):
    keras = import_keras()
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    joined = keras.layers.Concatenate()([a, b])
    keras.Model([a, b], keras.layers.Dense(2)(joined)).save(tmp_path / "m.keras")
    np.savez(tmp_path / "m.npz", a=np.ones((4, 3)), b=np.ones((4, 3)))
    assert _run(convert_command, tmp_path / "m.keras") == 0
    assert _info(tmp_path / "m.tflite").calibration["source"] == "m.npz"


def test_three_stages_run_from_one_command(folder, capsys):
    status = _run(
        three_stage_command,
        folder / "m.h5",
        *("--data", folder / "data.npz", "--target-accuracy", 0.9, "--input-scale", 1 / 255),
        *("--learning-rate", 0.02, "--output", folder / "three.tflite"),
    )
    assert status == 0
    shown = capsys.readouterr().out
    assert "held-out accuracy before and after each warm-up epoch" in shown
    info = _info(folder / "three.tflite")
    assert info.options["weight_headroom"] == 4.0
    assert info.calibration["samples"] == 270
