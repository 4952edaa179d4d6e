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
