"""Fixtures of the firmware tests; what needs a compiler or an emulator skips with the reason."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(scope="session", autouse=True)
def host_compiler():
    """Every test here compiles generated code for this machine at least."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler (c++) on PATH")


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory):
    """A folder whose objects all tests share, so that each kernel is compiled once."""
    return tmp_path_factory.mktemp("firmware")


def require_target(target):
    """Skip unless images of `target` can be built and run here."""
    from tflm_train._firmware.build import missing_tools
    from tflm_train._firmware.emulators import missing_emulator

    reason = missing_tools(target) or missing_emulator(target)
    if reason:
        pytest.skip(reason)
