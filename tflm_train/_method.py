"""What the training loop asks of a training method."""

import abc
import logging

import numpy as np

_log = logging.getLogger("tflm_train")


class Trainer(abc.ABC):
    """What the loop asks of a method. Data pass through `prepare` once, then stay in its form."""

    method = ""

    def prepare(self, x):
        """Data in the form `train_batch` takes: a list of arrays [n, ...]."""
        return list(x) if isinstance(x, (list, tuple)) else [np.asarray(x)]

    def check_targets(self, y):
        """Targets in the method's dtype, or `DataError`."""
        return np.ascontiguousarray(y, np.int32)

    @abc.abstractmethod
    def train_batch(self, data, y):
        """One step; returns `loss` (mean or None), `samples`, and `correct` if known."""

    def train_chunk(self, data, y, indices, batch_size):
        """Steps over `indices` in batches; returns the list of `train_batch` results.

        A method overrides it to make many steps without returning to Python.
        """
        results = []
        for begin in range(0, len(indices), batch_size):
            part = indices[begin : begin + batch_size]
            results.append(self.train_batch([array[part] for array in data], y[part]))
        return results

    @abc.abstractmethod
    def evaluate(self, data, y):
        """(mean loss or None, accuracy or None)."""

    @abc.abstractmethod
    def statistics(self):
        """Numbers worth a look after an epoch, by name."""

    def on_epoch_end(self, metrics):  # noqa: B027 - optional hook
        """Schedules move here; `metrics` is the epoch's row."""

    @abc.abstractmethod
    def state_dict(self):
        """Arrays, numbers and strings for an exact resume."""

    @abc.abstractmethod
    def load_state_dict(self, state):
        """Continue from `state_dict()`."""

    @abc.abstractmethod
    def configuration(self):
        """Options a resumed run must share with the first one, by name."""

    @abc.abstractmethod
    def model_bytes(self):
        """The flatbuffer as it is now."""

    def warn(self, message):
        """Say something a user must know."""
        _log.warning("%s: %s", self.method, message)
