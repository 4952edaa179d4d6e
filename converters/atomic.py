"""Write a file so that a crash leaves the old one or the new one, never a torn one."""

import os
import tempfile
from pathlib import Path


def write_bytes_atomically(path, data):
    """Write `data` to a temporary file beside `path`, fsync, rename.

    Raises:
      OSError: the folder does not exist or cannot be written; `path` is then as it was.
    """
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; a model is as readable as any other new file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder):
    # The rename itself must reach the disk; not every system lets a folder be opened.
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
