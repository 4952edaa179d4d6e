"""Write a file so that a reader, or a power cut, sees the old one or the new one whole."""

import contextlib
import glob
import os
import tempfile
from pathlib import Path


def write_bytes_atomically(path, data):
    """Write `data` to a temporary file beside `path`, flush it to the disk, and rename it.

    Args:
      path: where the file shall be.
      data: bytes.

    Raises:
      OSError: the folder does not exist or cannot be written; no partial file is left behind.
    """
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes the file private; a model is as readable as its neighbours.
        os.chmod(temporary, _mode_of(path))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def _mode_of(path):
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


def _sync_folder(folder):
    """The rename itself must reach the disk; not every system lets a folder be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_with_leftovers(path):
    """Remove `path` and what writers that were killed half-way left beside it."""
    path = Path(path)
    path.unlink(missing_ok=True)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        leftover.unlink(missing_ok=True)
