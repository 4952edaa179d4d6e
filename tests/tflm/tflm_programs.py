"""Builds and runs the C++ test programs: stand-in or real TFLM, this machine or emulated boards.

Real TFLM takes part when TFLM_ROOT names its source tree and TFLM_LIB a folder of libraries, one
sub-folder each: `host`, `m0`, `m55ref`, `m55cmsis`, `m55size`, holding `libtensorflow-microlite.a`.
TFLM_INCLUDES lists further include folders (flatbuffers, gemmlowp, ruy), separated by colons.
"""

import dataclasses
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from tflm_train._firmware.emulators import _ASSETS, _rp2040js, missing_emulator
from tflm_train._firmware.targets import TARGETS, kernel_sources, micro_ops_root

HERE = Path(__file__).resolve().parent
LIBRARY = "libtensorflow-microlite.a"


@dataclasses.dataclass(frozen=True)
class Machine:
    """Where a program runs: a target of the package, and TFLM's library for it or None."""

    name: str
    target: str
    tflm: str | None = None
    flags: tuple = ()

    def missing(self):
        """Why it cannot run here, or None."""
        kind = TARGETS[self.target]
        if shutil.which(kind.compiler) is None:
            return f"no {kind.compiler} on PATH"
        if kind.board and missing_emulator(self.target):
            return missing_emulator(self.target)
        if self.tflm is None:
            return None
        root, libraries = os.environ.get("TFLM_ROOT"), os.environ.get("TFLM_LIB")
        if not root or not libraries:
            return "TFLM_ROOT and TFLM_LIB are not set (docs/tflm.md, Tests)"
        if not (Path(libraries) / self.tflm / LIBRARY).is_file():
            return f"no {self.tflm}/{LIBRARY} in TFLM_LIB"
        return None


MACHINES = {
    machine.name: machine
    for machine in (
        Machine("host", "generic"),
        Machine("host-ubsan", "generic", flags=("-fsanitize=undefined,alignment,address",
                                                "-fno-sanitize-recover=all", "-g")),
        Machine("rp2040", "rp2040"),
        Machine("cortex-m55", "cortex-m55"),
        Machine("tflm-host", "generic", "host"),
        Machine("tflm-rp2040", "rp2040", "m0"),
        Machine("tflm-m55-reference", "cortex-m55", "m55ref"),
        Machine("tflm-m55-cmsis-nn", "cortex-m55", "m55cmsis"),
        Machine("tflm-m55-cmsis-nn-size", "cortex-m55", "m55size"),
    )
}  # fmt: skip


def need(name):
    """The machine of a name; skips the test when it is not here."""
    machine = MACHINES[name]
    reason = machine.missing()
    if reason:
        pytest.skip(reason)
    return machine


def c_array(name, values, ctype, *, align=""):
    """A C array definition."""
    values = np.asarray(values)
    if values.ndim == 2:
        rows = ",\n".join("{" + ",".join(map(str, row)) + "}" for row in values.tolist())
        return f"{align}const {ctype} {name}[][{values.shape[1]}] = {{\n{rows}}};\n"
    return f"{align}const {ctype} {name}[] = {{{','.join(map(str, values.tolist()))}}};\n"


def model_array(raw):
    """The flatbuffer as `kModel`."""
    return c_array("kModel", np.frombuffer(raw, np.uint8), "unsigned char", align="alignas(16) ")


# Kept between runs: nothing in it is used unless every byte that went in is the same.
_OBJECTS = Path(tempfile.gettempdir()) / "tflm_train_test_objects"


def _compile(command, source, output):
    output.parent.mkdir(exist_ok=True)
    part = output.with_suffix(f".{os.getpid()}")
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    done = subprocess.run(
        [*command, *warnings, "-c", str(source), "-o", str(part)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    part.replace(output)


def _objects(machine, folder, sources, extra):
    kind, root = TARGETS[machine.target], micro_ops_root()
    flags = [*_FLAGS, *kind.flags, *machine.flags, *extra]
    flags += {"armv6m": ["-DTFLM_TRAIN_ARMV6M"], "helium": ["-DTFLM_TRAIN_HELIUM"]}.get(
        kind.kernels, []
    )
    includes = [f"-I{folder}", f"-I{HERE}", f"-I{root}"]
    if machine.tflm:
        tree = Path(os.environ["TFLM_ROOT"])
        includes += [f"-isystem{tree}"]
        includes += [f"-isystem{p}" for p in os.environ.get("TFLM_INCLUDES", "").split(":") if p]
        flags += ["-DTF_LITE_STATIC_MEMORY", "-DTFLM_TRAIN_REAL_TFLM"]
    else:
        includes.append(f"-I{root / 'micro_ops/tflm/testing'}")
    if kind.board or not machine.tflm:
        flags.append("-DTFLM_TRAIN_OWN_DEBUG_LOG")
    if kind.board:
        flags.append("-DTFLM_TRAIN_BOARD")
    stamp = hashlib.sha256(" ".join([kind.compiler, *flags, *includes[1:]]).encode())
    headers = [h for h in sorted((root / "micro_ops").rglob("*.h")) if h.parent.name != "host"]
    for header in [*headers, *sorted(folder.glob("*.h"))]:
        stamp.update(header.read_bytes())
    made = []
    for source in sources:
        key = stamp.copy()
        key.update(source.read_bytes())
        output = _OBJECTS / f"{source.stem}_{key.hexdigest()[:20]}.o"
        if not output.is_file():
            _compile([kind.compiler, *flags, *includes], source, output)
        made.append(output)
    return made


_FLAGS = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
          "-ffunction-sections", "-fdata-sections")  # fmt: skip
# The C library wants an end of memory for a heap that nothing uses.
_NEWLIB = ["--specs=nosys.specs", "--specs=nano.specs", "-Wl,--defsym=end=linker_stack_top"]
_KERNELS = {}


def _kernels(machine, cache):
    """Objects that no case changes: kernels, glue, board; compiled once a machine."""
    if machine.name not in _KERNELS:
        kind, root = TARGETS[machine.target], micro_ops_root()
        sources = kernel_sources(kind) + sorted((root / "micro_ops/tflm").glob("*.cc"))
        if kind.board:
            base = root / "micro_ops/targets"
            sources += [base / "common/startup.cc", base / kind.board / "board.cc"]
            if not machine.tflm:
                sources.append(base / "common/runtime.cc")
        folder = cache.mktemp(f"kernels_{machine.name}")
        _KERNELS[machine.name] = _objects(machine, folder, sources, [])
    return _KERNELS[machine.name]


def build(machine, cache, sources, header, *, defines=(), includes=(), stack=16384):
    """Path of a program made of `sources` (names beside this file) and a header `train_case.h`."""
    kind, root = TARGETS[machine.target], micro_ops_root()
    folder = cache.mktemp("case")
    (folder / "train_case.h").write_text("#include <cstdint>\n" + header)
    kernels = _kernels(machine, cache)
    extra = [f"-D{d}" for d in defines] + [f"-I{path}" for path in includes]
    objects = _objects(machine, folder, [HERE / s for s in sources], extra) + kernels
    program = folder / "program.elf"
    command = [kind.compiler, *kind.flags, *machine.flags, "-Wl,--gc-sections"]
    if kind.board:
        base = root / "micro_ops/targets"
        command += ["-nostartfiles", "-Wl,--no-warn-rwx-segments",
                    f"-Wl,--defsym=STACK_BYTES={stack}", f"-L{base / 'common'}",
                    f"-T{base / kind.board / kind.script}"]  # fmt: skip
        command += _NEWLIB if machine.tflm else ["-nostdlib"]
    command += map(str, objects)
    if machine.tflm:
        command.append(str(Path(os.environ["TFLM_LIB"]) / machine.tflm / LIBRARY))
    if kind.board and not machine.tflm:
        command += ["-lc", "-lgcc"]
    done = subprocess.run(
        [*command, "-o", str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return program


def run(machine, program, *, timeout=300):
    """(exit code, lines of output) of a program; messages of TFLM are among the lines."""
    if machine.target == "generic":
        done = subprocess.run(
            [str(program)], capture_output=True, text=True, timeout=timeout, check=False
        )
        return done.returncode, (done.stdout + done.stderr).splitlines()
    if machine.target == "rp2040":
        command = ["node", str(_ASSETS / "rp2040_run.mjs"), str(_rp2040js()), str(program),
                   str(20_000_000_000)]  # fmt: skip
    else:
        command = ["qemu-system-arm", "-M", "mps3-an547", "-display", "none", "-monitor", "none",
                   "-serial", "stdio", "-semihosting-config", "enable=on,target=native",
                   "-kernel", str(program)]  # fmt: skip
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    timer = threading.Timer(timeout, process.kill)
    timer.start()
    try:
        output = process.stdout.read().decode("utf-8", "replace")
        return process.wait(), output.splitlines()
    finally:
        timer.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdin.close()
        process.stdout.close()


def fields(lines, name):
    """Integers of the lines that begin with `name`."""
    return [[int(v) for v in line.split()[1:]] for line in lines if line.startswith(name + " ")]
