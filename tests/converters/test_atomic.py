"""A written file is the old one or the new one."""

import os

import pytest

from converters import atomic
from converters.atomic import write_bytes_atomically


def test_bytes_arrive_and_nothing_else_is_left(tmp_path):
    write_bytes_atomically(tmp_path / "m.tflite", b"one")
    write_bytes_atomically(tmp_path / "m.tflite", b"two")
    assert (tmp_path / "m.tflite").read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["m.tflite"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failure_keeps_the_old_file_and_removes_the_temporary_one(tmp_path, monkeypatch, failing):
    write_bytes_atomically(tmp_path / "m", b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(atomic.os, failing, fail)
    with pytest.raises(OSError, match="disk full"):
        write_bytes_atomically(tmp_path / "m", b"new")
    assert (tmp_path / "m").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m"]


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_bytes_atomically(tmp_path / "none" / "m", b"x")


def test_the_mode_is_that_of_the_old_file_or_of_any_new_one(tmp_path):
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    write_bytes_atomically(tmp_path / "m", b"x")
    assert (tmp_path / "m").stat().st_mode == plain.stat().st_mode
    os.chmod(tmp_path / "m", 0o640)
    write_bytes_atomically(tmp_path / "m", b"y")
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o640
