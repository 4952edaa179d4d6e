"""Keep TensorFlow's start-up and converter chatter off the terminal, without losing it.

TensorFlow's C++ side writes to file descriptor 2 whatever `logging` is told. What it wrote goes to
this module's logger at DEBUG level instead, so `--verbosity=1` still shows it.
"""

import contextlib
import importlib
import logging
import os
import sys
import tempfile
import warnings

_LOGGER = logging.getLogger(__name__)


@contextlib.contextmanager
def quiet_native_output():
    """Send file descriptor 2 and TensorFlow's Python loggers to DEBUG while the block runs."""
    loggers = [logging.getLogger(name) for name in ("tensorflow", "absl")]
    levels = [logger.level for logger in loggers]
    sys.stderr.flush()
    try:
        saved = os.dup(2)
    except OSError:  # No descriptor 2 at all (a service, a GUI): nothing to keep quiet.
        yield
        return
    with tempfile.TemporaryFile() as sink:
        os.dup2(sink.fileno(), 2)
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
            os.dup2(saved, 2)
            os.close(saved)
            sink.seek(0)
            text = sink.read().decode("utf-8", "replace").strip()
            if text:
                _LOGGER.debug("native output:\n%s", text)


def import_tensorflow():
    """`tensorflow`, imported on first use and without its start-up messages."""
    if "tensorflow" in sys.modules:
        return sys.modules["tensorflow"]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with quiet_native_output():
        return importlib.import_module("tensorflow")


def import_keras():
    """`keras`, after TensorFlow so that its messages stay quiet too."""
    import_tensorflow()
    with quiet_native_output():
        return importlib.import_module("keras")
