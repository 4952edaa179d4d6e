"""Compile generated sources: images for the emulators, a shared library for this machine."""

import ctypes
import dataclasses
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np

from converters.errors import TflmTrainError
from tflm_train._firmware.targets import (
    board_sources,
    compile_flags,
    find_target,
    kernel_sources,
    micro_ops_root,
)


class BuildError(TflmTrainError):
    """A compiler is missing or refused the sources."""


@dataclasses.dataclass(frozen=True)
class Image:
    """A linked image with the sizes of its parts in bytes."""

    path: Path
    target: str
    text: int
    rodata: int
    data: int
    bss: int
    stack: int

    @property
    def flash(self):
        """Bytes of flash: code, constants and the start values of data."""
        return self.text + self.rodata + self.data

    @property
    def ram(self):
        """Bytes of RAM: data and the stack that the linker script reserves."""
        return self.data + self.bss + self.stack


def missing_tools(target):
    """Why images of a target cannot be built here, or None."""
    compiler = find_target(target).compiler
    if shutil.which(compiler) is None:
        return f"no {compiler} on PATH (Debian: apt-get install gcc-arm-none-eabi)"
    return None


def objects_folder(folder):
    """Where objects are kept: beside the model, so that models in one folder share kernels."""
    return Path(folder).resolve().parent / "objects"


def write_sources(files, folder):
    """Write `{name: text}` into `folder`, leaving equal files untouched."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(map(str, command[:3]))} … failed:\n{done.stderr[-4000:]}")
    return done.stdout


def _compile(sources, target, includes, objects, extra=()):
    """Objects of `sources`; a source is compiled again only when it or its flags change."""
    objects.mkdir(parents=True, exist_ok=True)
    root, model = includes
    flags = [target.compiler, *compile_flags(target), *extra, f"-I{root}"]
    stamp = hashlib.sha256(" ".join(flags).encode())
    for header in sorted((micro_ops_root() / "micro_ops").rglob("*.h")):
        stamp.update(header.read_bytes())
    made = []
    for source in sources:
        key = stamp.copy()
        key.update(source.read_bytes())
        command = flags
        # Only these see the model; the kernels are the same for all models.
        if source.parent == Path(model) or source.name == "serve.cc" or extra:
            command = [*flags, f"-I{model}"]
            for header in sorted(Path(model).glob("*.h")):
                key.update(header.read_bytes())
        output = objects / f"{source.parent.name}_{source.stem}_{key.hexdigest()[:16]}.o"
        if not output.is_file():
            partial = output.with_suffix(f".{os.getpid()}.tmp")
            _run([*command, "-c", str(source), "-o", str(partial)])
            partial.replace(output)
        made.append(output)
    return made


def build_image(folder, target, *, name="firmware", flags=(), extra_sources=(), objects=(),
                board=True, stack=4096):  # fmt: skip
    """Link the generated sources in `folder` into `folder/<name>.elf`.

    Args:
      folder: holds model.h, model.cc, model_data.cc.
      target: `rp2040` or `cortex-m55`.
      flags: further flags of every compilation.
      extra_sources: further sources to link.
      objects: further objects to link.
      board: link the serving application; False when `extra_sources` bring a `main`.
      stack: bytes reserved for the stack.

    Raises:
      BuildError: the compiler is missing, or its message.
    """
    reason = missing_tools(target)
    if reason:
        raise BuildError(f"Expected a cross compiler for {target}, got {reason}")
    kind, folder = find_target(target), Path(folder).resolve()
    root = micro_ops_root()
    boards = board_sources(kind)
    if not board:
        boards = [p for p in boards if p.name != "serve.cc"]
    sources = [*sorted(folder.glob("model*.cc")), *map(Path, extra_sources)]
    sources += [*kernel_sources(kind), *boards]
    compiled = _compile(sources, kind, [root, folder], objects_folder(folder), list(flags))
    image = folder / f"{name}.elf"
    scripts = root / "micro_ops" / "targets"
    _run([
        kind.compiler, *kind.flags, "-nostdlib", "-Wl,--gc-sections", "-Wl,--no-warn-rwx-segments",
        f"-Wl,--defsym=STACK_BYTES={stack}", f"-L{scripts / 'common'}",
        f"-T{scripts / kind.board / kind.script}",
        *map(str, [*compiled, *objects]), "-lgcc", "-o", str(image),
    ])  # fmt: skip
    return _measure(image, target)


def _measure(image, target):
    sizes = {}
    for line in _run(["arm-none-eabi-size", "-A", str(image)]).splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[0].startswith("."):
            sizes[parts[0]] = int(parts[1])
    if sizes.get(".init_array", 0):
        raise BuildError(
            f"Expected an image without static constructors, got {sizes['.init_array'] // 4} in "
            f"{image.name}: nothing would run them"
        )
    return Image(
        path=image,
        target=target,
        text=sizes.get(".text", 0),
        rodata=sizes.get(".rodata", 0),
        data=sizes.get(".data", 0),
        bss=sizes.get(".bss", 0),
        stack=sizes.get(".stack", 0),
    )


class HostModel:
    """The generated code of a model, compiled for this machine and called through ctypes.

    Args:
      folder: holds model.h, model.cc, model_data.cc.
      kernels_of: the target whose training kernels are compiled in; those of `cortex-m55` need
        the machine itself.

    Raises:
      BuildError: no C++ compiler, or its message.
    """

    def __init__(self, folder, *, kernels_of="generic", name="libmodel"):
        host = find_target("generic")
        if shutil.which(host.compiler) is None:
            raise BuildError(f"Expected a C++ compiler, got no {host.compiler} on PATH")
        kind = dataclasses.replace(find_target("generic"), kernels=find_target(kernels_of).kernels)
        folder, root = Path(folder).resolve(), micro_ops_root()
        sources = [*sorted(folder.glob("model*.cc")), *kernel_sources(kind)]
        objects = _compile(sources, kind, [root, folder], objects_folder(folder))
        # A new name per content: the loader would return an older library of the same path.
        digest = hashlib.sha256("".join(o.name for o in objects).encode()).hexdigest()[:12]
        library = folder / f"{name}_{digest}.so"
        if not library.is_file():
            _run([kind.compiler, "-shared", *map(str, objects), "-o", str(library)])
        self._library = ctypes.CDLL(str(library))
        text = (folder / "model.h").read_text()
        self.sizes = {
            parts[1]: int(parts[2])
            for parts in (line.split() for line in text.splitlines())
            if len(parts) >= 3 and parts[0] == "#define" and parts[2].lstrip("-").isdigit()
        }
        if self.sizes["MODEL_TRAINS"]:
            self._library.model_logits.restype = ctypes.c_void_p
            self._library.model_loss.restype = ctypes.c_int64
            self._library.model_state_crc.restype = ctypes.c_uint32
        self._library.model_init()

    def infer(self, x):
        """Int8 logits of one int8 sample."""
        x = np.ascontiguousarray(x, np.int8)
        logits = np.empty(self.sizes["MODEL_OUTPUT_SIZE"], np.int8)
        self._library.model_infer(_pointer(x), _pointer(logits))
        return logits

    def train(self, x, labels):
        """One step on int8 samples [n, ...]: (result, loss, logits)."""
        x = np.ascontiguousarray(x, np.int8).reshape(len(labels), -1)
        labels = np.ascontiguousarray(labels, np.int32)
        pointers = (ctypes.c_void_p * len(labels))(*[row.ctypes.data for row in x])
        result = self._library.model_train_batch(pointers, _pointer(labels), len(labels))
        size = self.sizes["MODEL_OUTPUT_SIZE"]
        logits = np.ctypeslib.as_array(
            ctypes.cast(self._library.model_logits(), ctypes.POINTER(ctypes.c_int8)), (size,)
        ).copy()
        return result, int(self._library.model_loss()), logits

    def end_epoch(self, metric):
        """Tell the schedule a validation metric; returns q."""
        return int(self._library.model_end_epoch(ctypes.c_int64(int(metric))))

    def set_decay(self, shift):
        """Make every update 2^shift times smaller."""
        self._library.model_set_decay(int(shift))

    def crc(self):
        """CRC-32 of the trained tensors."""
        return int(self._library.model_state_crc())

    def get_state(self):
        """Bytes of the training state."""
        state = np.zeros(self.sizes["MODEL_STATE_BYTES"], np.uint8)
        self._library.model_get_state(0, _pointer(state), len(state))
        return state.tobytes()

    def set_state(self, state):
        """Take over bytes from `get_state`.

        Raises:
          ValueError: bytes of another model.
        """
        raw = np.frombuffer(state, np.uint8).copy()
        wrong = len(raw) != self.sizes["MODEL_STATE_BYTES"]
        if wrong or self._library.model_set_state(0, _pointer(raw), len(raw)) != 0:
            raise ValueError("Expected a state of this model, got another")

    def reset(self):
        """Back to the exported weights."""
        self._library.model_init()


def _pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)
