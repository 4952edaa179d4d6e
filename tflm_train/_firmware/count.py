"""The QEMU plug-in that counts instructions between the work marks of an image."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from tflm_train._firmware.build import BuildError
from tflm_train._firmware.emulators import tools_folder

_SOURCE = Path(__file__).resolve().parent / "assets" / "count_plugin.c"


def counting_plugin(image):
    """Argument of `Emulator(plugin=...)` that counts in `image`, built on first use.

    Raises:
      BuildError: no C compiler, or an image without the marks.
    """
    if shutil.which("cc") is None:
        raise BuildError("Expected a C compiler for the counting plug-in, got no cc on PATH")
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    library = tools_folder() / f"count_plugin_{digest}.so"
    if not library.is_file():
        library.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["cc", "-O2", "-Wall", "-shared", "-fPIC", str(_SOURCE), "-o", str(library)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BuildError(f"the counting plug-in does not compile: {done.stderr[-1000:]}")
    marks = _symbols(image)
    try:
        begin, end = marks["board_work_begin"], marks["board_work_end"]
    except KeyError as error:
        raise BuildError(
            f"Expected work marks in {image}, got none: build it for cortex-m55"
        ) from error
    return f"{library},begin={begin:#x},end={end:#x}"


def _symbols(image):
    done = subprocess.run(
        ["arm-none-eabi-nm", str(image)], capture_output=True, text=True, check=True
    )
    parts = (line.split() for line in done.stdout.splitlines())
    return {p[2]: int(p[0], 16) & ~1 for p in parts if len(p) == 3}
