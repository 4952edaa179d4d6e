"""Checkpoints of a training run: one file, replaced atomically, refused when of another run."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np

from converters.atomic import write_bytes_atomically
from converters.errors import CheckpointError

FORMAT_VERSION = 1
_STATE = "state_"


def save_checkpoint(path, configuration, meta, arrays, state):
    """Write everything a run needs to go on; an older checkpoint stays whole until this one is.

    Args:
      path: of the file.
      configuration: options the resumed run must share, JSON-able.
      meta: JSON-able progress.
      arrays: NumPy arrays by name.
      state: a trainer's `state_dict()`.
    """
    numbers = {k: v for k, v in state.items() if not isinstance(v, np.ndarray)}
    document = {
        "version": FORMAT_VERSION,
        "configuration": configuration,
        "meta": meta,
        "numbers": numbers,
    }
    entries = dict(arrays)
    entries.update({_STATE + k: v for k, v in state.items() if isinstance(v, np.ndarray)})
    buffer = io.BytesIO()
    np.savez(buffer, document=np.frombuffer(json.dumps(document).encode(), np.uint8), **entries)
    write_bytes_atomically(path, buffer.getvalue())


def load_checkpoint(path, configuration):
    """Read what `save_checkpoint` wrote.

    Returns:
      (meta, arrays, state), or None when there is no file yet.

    Raises:
      CheckpointError: damaged, of another version, or of a run with other options.
    """
    path = Path(path)
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            entries = {name: file[name] for name in file.files}
        document = json.loads(entries.pop("document").tobytes())
        version = document["version"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"Expected a checkpoint, got {path}: {error}; remove it to start again"
        ) from error
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"Expected a checkpoint of version {FORMAT_VERSION}, got {version}: finish the run "
            "with the release that started it, or remove the file to start again"
        )
    _check_same(path, document["configuration"], json.loads(json.dumps(configuration)))
    state = {k[len(_STATE) :]: v for k, v in entries.items() if k.startswith(_STATE)}
    state.update(document["numbers"])
    arrays = {k: v for k, v in entries.items() if not k.startswith(_STATE)}
    return document["meta"], arrays, state


def _check_same(path, found, expected):
    different = [
        f"{key} {found.get(key)!r} (now {expected.get(key)!r})"
        for key in sorted({*found, *expected})
        if found.get(key) != expected.get(key)
    ]
    if different:
        raise CheckpointError(
            f"Expected a checkpoint of this run, got {path} with {', '.join(different)}: use the "
            "same options and data, or remove the file to start again"
        )
