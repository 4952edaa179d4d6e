"""Images under emulation: QEMU's MPS3 AN547 (Cortex-M55) and rp2040js (RP2040)."""

import ctypes
import json
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from converters.errors import TflmTrainError
from tflm_train._firmware.protocol import Client

RP2040JS = "rp2040js@1.4.1"
_ASSETS = Path(__file__).resolve().parent / "assets"
_PR_SET_PDEATHSIG = 1


def _die_with_parent():
    # An image waits for its host for ever; without this a killed test run leaves it spinning.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class EmulatorError(TflmTrainError):
    """An emulator is missing, ended, or took too long."""


def tools_folder():
    """Where emulators from npm live: `TFLM_TRAIN_TOOLS`, else the user's cache."""
    chosen = os.environ.get("TFLM_TRAIN_TOOLS")
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tflm_train" / "tools"


def _rp2040js():
    return tools_folder() / "node_modules" / "rp2040js"


def missing_emulator(target):
    """Why a target cannot be emulated here, or None."""
    if target == "cortex-m55":
        if shutil.which("qemu-system-arm") is None:
            return "no qemu-system-arm on PATH (Debian: apt-get install qemu-system-arm)"
        return None
    if target != "rp2040":
        return f"no emulator for {target}"
    if shutil.which("node") is None:
        return "no node on PATH (Debian: apt-get install nodejs npm)"
    if not (_rp2040js() / "package.json").is_file():
        return f"no rp2040js in {tools_folder()} (make firmware-tools)"
    return None


def install_rp2040js():
    """Fetch rp2040js with npm into `tools_folder()`, once.

    Raises:
      EmulatorError: npm is missing or failed.
    """
    if (_rp2040js() / "package.json").is_file():
        return
    if shutil.which("npm") is None:
        raise EmulatorError("Expected npm on PATH, got none (Debian: apt-get install npm)")
    tools_folder().mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(tools_folder()), RP2040JS],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise EmulatorError(f"npm install {RP2040JS} failed: {done.stderr[-1000:]}")


class Emulator:
    """A running image with its UART; a context manager.

    Args:
      image: path of an ELF.
      target: `rp2040` or `cortex-m55`.
      timeout: seconds of waiting for one answer.
      max_instructions: the run ends after so many (rp2040 only).
      plugin: path of a QEMU plug-in with its options, for instruction counts.

    Attributes:
      client: a `Client` of the application in the image.
      cycles: of each measured piece of work so far (rp2040), see `last_cycles`.
    """

    def __init__(self, image, target, *, timeout=120.0, max_instructions=20_000_000_000,
                 plugin=None):  # fmt: skip
        reason = missing_emulator(target)
        if reason:
            raise EmulatorError(f"Expected an emulator for {target}, got {reason}")
        self._timeout = timeout
        if target == "rp2040":
            command = ["node", str(_ASSETS / "rp2040_run.mjs"), str(_rp2040js()), str(image),
                       str(max_instructions)]  # fmt: skip
        else:
            command = ["qemu-system-arm", "-M", "mps3-an547", "-display", "none", "-monitor",
                       "none", "-serial", "stdio", "-semihosting-config", "enable=on,target=native",
                       "-kernel", str(image)]  # fmt: skip
            if plugin:
                command += ["-plugin", plugin, "-d", "plugin", "-D", "/dev/stderr"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        self._notes = queue.Queue()
        self._errors = []
        threading.Thread(target=self._watch, daemon=True).start()
        self.client = Client(self._write, self._read)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Stop the emulator."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            stream.close()

    def wait(self):
        """Exit code after the application has ended itself."""
        try:
            return self._process.wait(timeout=self._timeout)
        except subprocess.TimeoutExpired as error:
            raise EmulatorError(
                f"Expected the image to end, got none in {self._timeout} s"
            ) from error

    def last_count(self):
        """Cycles (rp2040) or instructions (Cortex-M55 with a plug-in) of the last request."""
        try:
            return self._notes.get(timeout=5)
        except queue.Empty as error:
            raise EmulatorError("Expected a count of the last request, got none") from error

    def forget_counts(self):
        """Drop the counts of earlier requests."""
        while not self._notes.empty():
            self._notes.get()

    def _watch(self):
        for line in self._process.stderr:
            text = line.decode("utf-8", "replace").strip()
            if text.startswith("{"):
                note = json.loads(text)
                if "cycles" in note:
                    self._notes.put(note["cycles"])
                    continue
            self._errors.append(text)

    def _write(self, data):
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise EmulatorError(self._ended()) from error

    def _read(self, count):
        data, stream = b"", self._process.stdout
        end = time.monotonic() + self._timeout
        while len(data) < count:
            left = end - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                raise EmulatorError(f"Expected an answer, got none in {self._timeout:.0f} s")
            part = os.read(stream.fileno(), count - len(data))
            if not part:
                raise EmulatorError(self._ended())
            data += part
        return data

    def _ended(self):
        code = self._process.poll()
        return f"Expected a running image, got its end (code {code}): {' '.join(self._errors[-5:])}"
