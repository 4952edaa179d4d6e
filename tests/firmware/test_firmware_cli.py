"""The commands export --format c, plan and run-emulated, each in a process of its own."""

import json
import subprocess
import sys

import pytest
from chains import REPOSITORY, require_target

MODEL = REPOSITORY / "examples" / "models" / "mnist_cnn_int8.tflite"


def tflm_train(*arguments):
    command = [sys.executable, "-m", "tflm_train.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", ["generic", "rp2040", "cortex-m55"])
def test_exported_sources_compile_on_their_own_without_a_warning(tmp_path, target):
    if target != "generic":
        require_target(target)
    done = tflm_train("export", MODEL, "--format", "c", "--target", target, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    from tflm_train._firmware.targets import compile_flags, find_target

    kind = find_target(target)
    for name in ("model.cc", "model_data.cc", "micro_ops/trainer/zo_step.cc"):
        subprocess.run(
            [kind.compiler, *compile_flags(kind), f"-I{tmp_path}", "-c", str(tmp_path / name),
             "-o", str(tmp_path / "out.o")],
            check=True,
        )  # fmt: skip
    # A C program includes the interface as it is.
    (tmp_path / "use.c").write_text(
        '#include "model.h"\nint f(void) { return MODEL_OUTPUT_SIZE; }\n'
    )
    compiler = kind.compiler.replace("g++", "gcc").replace("c++", "cc")
    subprocess.run(
        [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", str(tmp_path / "use.c"), "-o",
         str(tmp_path / "use.o")],
        check=True,
    )  # fmt: skip


def test_plan_prints_memory_time_and_verdict(tmp_path):
    report = tmp_path / "plan.json"
    done = tflm_train("plan", MODEL, "--target", "rp2040", "--report", report)
    assert done.returncode == 0, done.stderr
    assert "fits" in done.stdout
    assert "cycles" in done.stdout
    figures = json.loads(report.read_text())
    assert figures["ram"] < 264 << 10
    assert figures["costs"]["train"] > figures["costs"]["infer"]


def test_plan_says_what_does_not_fit_and_what_to_change(tmp_path):
    done = tflm_train("plan", MODEL, "--target", "rp2040", "--batch-size", 1000)
    assert done.returncode == 3
    assert "does not fit" in done.stdout
    assert "a smaller --batch-size" in done.stdout


def test_an_unwritable_place_is_refused(tmp_path):
    place = tmp_path / "file"
    place.write_text("")
    done = tflm_train("export", MODEL, "--format", "c", "--output", place)
    assert done.returncode == 2
    assert "Expected a folder" in done.stderr


def test_run_emulated_trains_and_agrees_with_the_host(tmp_path):
    require_target("cortex-m55")
    report = tmp_path / "run.json"
    done = tflm_train(
        "run-emulated", MODEL, "--target", "cortex-m55", "--data", "digits", "--limit", 8,
        "--validation-limit", 2, "--checks", 1, "--q", 1, "--plot", tmp_path / "run.png",
        "--report", report,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "equal the host's" in done.stdout.replace("\n", " ")
    figures = json.loads(report.read_text())
    assert figures["accuracy"] == figures["host_accuracy"]
    assert len(figures["counts"]) == figures["steps"]
    assert (tmp_path / "run.png").stat().st_size > 1000
