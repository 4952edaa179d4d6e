"""The C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer."""

import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.nightly
def test_kernels_and_engine_pass_the_cpp_tests_under_the_sanitisers(tmp_path):
    for tool in ("cmake", "ninja", "c++"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} on this machine")
    configure = [
        *("cmake", "-S", str(REPOSITORY / "micro_ops"), "-B", str(tmp_path), "-G", "Ninja"),
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        "-DTFLM_TRAIN_PYTHON=OFF",
        "-DTFLM_TRAIN_HOST=ON",
        "-DTFLM_TRAIN_TESTS=ON",
        "-DTFLM_TRAIN_SANITIZE=ON",
    ]
    for command in (
        configure,
        ["cmake", "--build", str(tmp_path)],
        ["ctest", "--test-dir", str(tmp_path), "--output-on-failure"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "100% tests passed" in done.stdout
