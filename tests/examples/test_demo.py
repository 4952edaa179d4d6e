"""`make demo`'s script prints its figures and leaves models and pictures behind."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_both_methods_learn_the_rotated_digits(tmp_path, digits):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py"), "--output", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    last = done.stdout.strip().splitlines()[-1]
    before, zo, priot = (
        float(v)
        for v in re.fullmatch(
            r"demo: rotated-30 accuracy before=([\d.]+) zo=([\d.]+) priot=([\d.]+)", last
        ).groups()
    )
    assert zo >= before + 0.08
    assert priot >= before + 0.15
    for name in ("model.tflite", "model_zo.tflite", "model_priot.tflite", "zo.png", "priot.png"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
