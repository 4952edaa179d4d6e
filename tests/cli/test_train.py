"""`tflm-train train` and its companions as a user calls them, in processes of their own."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

MODEL = Path(__file__).resolve().parents[2] / "examples/models/mnist_cnn_int8.tflite"


def command(*args):
    return [sys.executable, "-m", "tflm_train.cli.main", *map(str, args)]


def run(*args, check=True, cwd=None):
    done = subprocess.run(command(*args), capture_output=True, text=True, cwd=cwd, timeout=300)
    if check:
        assert done.returncode == 0, done.stderr
    return done


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def data(tmp_path_factory, rotated):
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    (x, y), (x_test, y_test) = rotated  # sorted by class: every fifth has all ten
    np.savez(path, x_train=x, y_train=y, x_test=x_test[::5], y_test=y_test[::5])
    return path


def test_training_improves_and_leaves_model_picture_and_history(data, tmp_path):
    output = tmp_path / "out.tflite"
    before = json.loads(run("eval", MODEL, "--data", data, "--json").stdout)
    done = run(
        "train", MODEL, "--data", data, "--epochs", 15, "--output", output,
        "--history", tmp_path / "h.json", "--replay-log", tmp_path / "run.zolog", "--keep", "last",
    )  # fmt: skip
    assert "epoch  15/15" in done.stdout
    after = json.loads(run("eval", output, "--data", data, "--json").stdout)
    assert after["accuracy"] > before["accuracy"] + 0.08
    assert (tmp_path / "out.png").read_bytes()[:4] == b"\x89PNG"
    history = json.loads((tmp_path / "h.json").read_text())
    assert [row["epoch"] for row in history] == list(range(1, 16))
    assert not (tmp_path / "out.tflite.ckpt").exists()
    run("replay", MODEL, tmp_path / "run.zolog", "--output", tmp_path / "replayed.tflite")
    assert sha256(tmp_path / "replayed.tflite") == sha256(output)


def test_a_run_killed_at_random_moments_and_resumed_gives_the_same_file(data, tmp_path):
    options = [
        "train", MODEL, "--data", data, "--epochs", 60, "--q", 64, "--batch-size", 16,
        "--checkpoint-seconds", 0, "--update", "int16_shadow", "--keep", "last",
    ]  # fmt: skip
    run(*options, "--output", tmp_path / "whole.tflite")
    rng = random.Random(int.from_bytes(os.urandom(4), "big"))
    output = tmp_path / "killed.tflite"
    checkpoint = tmp_path / "killed.tflite.ckpt"
    kills = 0
    for _ in range(60):
        resume = ["--resume"] if checkpoint.exists() else []
        process = subprocess.Popen(
            command(*options, "--output", output, *resume),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        # Wait for the first checkpoint so that a kill falls into the training, not the imports.
        start = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != start:
                break
            time.sleep(0.002)
        try:
            process.wait(timeout=rng.uniform(0.0, 0.15) if kills < 3 else 300)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        assert process.returncode == 0, process.stderr.read()
        break
    assert kills >= 1
    assert sha256(output) == sha256(tmp_path / "whole.tflite")
    assert not list(tmp_path.glob(".*ckpt*"))


def test_an_unfinished_run_is_not_overwritten_silently(data, tmp_path):
    (tmp_path / "out.tflite.ckpt").write_bytes(b"something of value")
    done = run("train", MODEL, "--data", data, "--output", tmp_path / "out.tflite", check=False)
    assert done.returncode == 2
    assert "--resume" in done.stderr
    assert (tmp_path / "out.tflite.ckpt").read_bytes() == b"something of value"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", MODEL, "--data", "nothing.npz"], "which does not exist"),
        (["train", MODEL, "--data", "{data}", "--q", "0"], "q of 1 to 128, got 0"),
        (["train", MODEL, "--data", "{data}", "--output", "/no/such/x.tflite"], "existing folder"),
        (["train", MODEL, "--data", "{data}", "--limit", "0"], "--limit of 1 or more"),
        (["eval", "missing.tflite", "--data", "{data}"], "missing.tflite"),
        (["eval", "{data}", "--data", "{data}"], "not a TFLite file"),
        (["inspect", "{data}"], "not a TFLite file"),
        (["replay", MODEL, "{data}", "--output", "x.tflite"], "Expected a replay log"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_2(args, message, data, tmp_path):
    args = [str(a).replace("{data}", str(data)) for a in args]
    done = run(*args, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keep", [0.5, 0.0])
def test_inspect_refuses_half_and_empty_files(keep, tmp_path):
    raw = MODEL.read_bytes()
    (tmp_path / "half.tflite").write_bytes(raw[: int(len(raw) * keep)])
    done = run("inspect", tmp_path / "half.tflite", check=False)
    assert done.returncode == 2
    assert "truncated" in done.stderr or "no TFL3 identifier" in done.stderr
    assert "Traceback" not in done.stderr


def test_inspect_shows_scales_trainable_tensors_and_labels():
    found = json.loads(run("inspect", MODEL, "--json").stdout)
    assert found["inputs"][0]["zero_point"] == -128
    assert found["training"]["method"] == "zo"
    assert found["trainable_elements"] == 1280
    assert found["labels"] == [str(d) for d in range(10)]
    assert found["normalization"] == {"scale": 1 / 255, "offset": 0.0}
    assert (
        "FULLY_CONNECTED" in run("inspect", MODEL).stdout or "FULLY" in run("inspect", MODEL).stdout
    )


@pytest.mark.parametrize("name", ["convert", "train", "eval", "inspect", "replay", "three-stage"])
def test_help_teaches_with_an_example(name):
    done = run(name, "--help")
    assert f"tflm-train {name}" in done.stdout
    assert "default" in done.stdout or name in ("inspect", "replay", "eval")


def test_a_user_brings_a_csv_and_a_keras_model(tmp_path):
    """The README's quick start with somebody's own two classes."""
    build = """
import keras, numpy as np
rng = np.random.default_rng(0)
x = rng.normal(size=(400, 6)).astype("float32")
y = (x[:, 0] + x[:, 1] > 0).astype(int)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, activation="relu"),
                          keras.layers.Dense(2)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, epochs=30, verbose=0)
model.save("mine.keras")
shifted = x * 1.0
shifted[:, 0] *= -1.0                                    # the world has changed
rows = ["a,b,c,d,e,f,label"] + [",".join(f"{v:.5f}" for v in r) + "," + ("yes" if t else "no")
                                for r, t in zip(shifted, y)]
open("mine.csv", "w").write("\\n".join(rows))
np.savez("calibration.npz", x=x[:100])
"""
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True, capture_output=True)
    run("convert", "mine.keras", "--calibration", "calibration.npz", "--weight-headroom", 4,
        "--trainable", "all", cwd=tmp_path)  # fmt: skip
    before = json.loads(
        run("eval", "mine.tflite", "--data", "mine.csv", "--json", cwd=tmp_path).stdout
    )
    run("train", "mine.tflite", "--data", "mine.csv", "--epochs", 40, "--batch-size", 32,
        "--output", "tuned.tflite", cwd=tmp_path)  # fmt: skip
    after = [
        json.loads(run("eval", "tuned.tflite", "--data", "mine.csv", "--json", cwd=tmp_path).stdout)
        for _ in range(2)
    ]
    assert before["accuracy"] < 0.65
    assert after[0]["accuracy"] > 0.8
    assert after[0] == after[1]
