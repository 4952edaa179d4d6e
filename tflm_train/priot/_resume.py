"""Finished runs of the table, kept in the file of its results so that a stopped table goes on."""

import dataclasses
import hashlib
import json
import logging
from pathlib import Path

from converters.atomic import write_bytes_atomically
from tflm_train import __version__

_log = logging.getLogger("tflm_train")


def settings(models, source, rows, **options):
    """What two tables must share for a run of one to stand in the other."""
    return {
        "version": __version__,
        "dataset": source.name,
        "models": {k: hashlib.sha256(v).hexdigest() for k, v in models.items()},
        "rows": [dataclasses.asdict(row) for row in rows],
        **options,
    }


def finished(path, wanted):
    """Runs in the results file `path` that were made with the settings `wanted`.

    Args:
      path: a file of `save`, or None.
      wanted: of `settings`.

    Returns:
      A list of results; empty when there is no such file or when it has other settings.
    """
    if path is None or not Path(path).exists():
        return []
    try:
        found = json.loads(Path(path).read_text())
        same = found["settings"] == json.loads(json.dumps(wanted))
    except (ValueError, KeyError, TypeError):
        same = False
    if not same:
        _log.warning("%s holds another table or none: it will be replaced", path)
        return []
    return found["runs"]


def save(path, wanted, runs, **more):
    """Write the runs made so far, and `more`, in place of `path`."""
    found = {"settings": wanted, **more, "runs": runs}
    write_bytes_atomically(path, json.dumps(found, indent=1).encode())
