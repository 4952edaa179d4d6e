"""The replay log: seed and scalars of every step, from which the weights follow bit for bit."""

import hashlib
import io
import json
import zipfile

import numpy as np

from converters.atomic import write_bytes_atomically
from converters.errors import CheckpointError
from tflm_train.zo._weights import TrainableWeights

FORMAT_VERSION = 1


class ReplayLog:
    """Coefficients of every step with what an update needs besides.

    A run of n steps with q directions takes about 4 n q bytes, whatever the model's size.
    """

    def __init__(self, header):
        self.header = header
        self._steps = []

    @classmethod
    def start(cls, interpreter, options, weights):
        """An empty log for a run that starts from the interpreter's weights."""
        return cls(
            {
                "version": FORMAT_VERSION,
                "seed": options.seed,
                "mu": options.mu,
                "update": options.update,
                "beta_q8": weights.beta_q8,
                "units": [slot.unit for slot in weights.slots],
                "weights_sha256": _digest(weights),
            }
        )

    def __len__(self):
        return len(self._steps)

    def append(self, coefficients):
        """Add one step."""
        self._steps.append(np.array(coefficients, np.int32))

    def state_dict(self):
        """The log as three arrays."""
        return {
            "log_header": json.dumps(self.header, sort_keys=True),
            "log_q": np.array([len(a) for a in self._steps], np.int16),
            "log_coefficients": np.concatenate([np.zeros(0, np.int32), *self._steps]),
        }

    def load_state_dict(self, state):
        """Take over what `state_dict` gave."""
        self.header = json.loads(str(state["log_header"]))
        ends = np.cumsum(np.asarray(state["log_q"], np.int64))
        self._steps = np.split(np.asarray(state["log_coefficients"], np.int32), ends)[:-1]

    def save(self, path):
        """Write the log to `path`, a `.npz` by another name."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **self.state_dict())
        write_bytes_atomically(path, buffer.getvalue())

    @classmethod
    def load(cls, path):
        """Read what `save` wrote.

        Raises:
          CheckpointError: not a replay log, damaged, or of a newer version.
        """
        try:
            with np.load(path, allow_pickle=False) as state:
                log = cls({})
                log.load_state_dict(state)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"Expected a replay log, got {path}: {error}") from error
        if log.header.get("version") != FORMAT_VERSION:
            raise CheckpointError(
                f"Expected a replay log of version {FORMAT_VERSION}, got "
                f"{log.header.get('version')}"
            )
        return log


def replay(interpreter, log):
    """Bring an interpreter's weights from the start of a run to its end, without a forward pass.

    Args:
      interpreter: an `Interpreter` of the model the run started from.
      log: its `ReplayLog`.

    Raises:
      CheckpointError: the interpreter's weights are not those the run started from.

    Example:
      >>> from tflm_train.zo import ReplayLog, replay
      >>> replay(interpreter, ReplayLog.load("run.zolog"))  # doctest: +SKIP
    """
    header = log.header
    weights = TrainableWeights(
        interpreter.suffix,
        interpreter.trainable,
        header["units"],
        update=header["update"],
        beta_q8=header["beta_q8"],
        mu=header["mu"],
    )
    found = _digest(weights)
    if found != header["weights_sha256"]:
        raise CheckpointError(
            f"Expected the weights the run started from (sha256 {header['weights_sha256'][:12]}…), "
            f"got {found[:12]}…: replay on the model that training was given"
        )
    for step, coefficients in enumerate(log._steps):
        weights.update(coefficients, header["seed"], step)


def _digest(weights):
    digest = hashlib.sha256()
    for values in weights.read():
        digest.update(values.tobytes())
    return digest.hexdigest()
