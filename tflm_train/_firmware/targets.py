"""What the package knows about each target: compiler, flags, kernels, memory."""

import dataclasses
from pathlib import Path

from converters.errors import UnsupportedModelError

_CORE_FLAGS = (
    "-std=c++17",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-ffunction-sections",
    "-fdata-sections",
)


@dataclasses.dataclass(frozen=True)
class Target:
    """A machine that firmware is made for.

    Attributes:
      name: as the command line says it.
      kernels: `portable`, `armv6m` or `helium`: the form of the training kernels.
      compiler: C++ compiler.
      flags: of every compilation.
      board: folder below micro_ops/targets with board.cc and the linker script, or None.
      script: the linker script.
      ram, flash: bytes.
      clock: Hz of the usual board, to turn cycles into time.
    """

    name: str
    kernels: str
    compiler: str
    flags: tuple
    board: str | None = None
    script: str | None = None
    ram: int = 0
    flash: int = 0
    clock: int = 0


_KERNEL_MACRO = {
    "portable": (),
    "armv6m": ("-DTFLM_TRAIN_ARMV6M",),
    "helium": ("-DTFLM_TRAIN_HELIUM",),
}

TARGETS = {
    "rp2040": Target(
        name="rp2040",
        kernels="armv6m",
        compiler="arm-none-eabi-g++",
        flags=("-mcpu=cortex-m0plus", "-mthumb", "-O2"),
        board="rp2040",
        script="rp2040.ld",
        ram=264 << 10,
        flash=2 << 20,
        clock=133_000_000,
    ),
    "cortex-m55": Target(
        name="cortex-m55",
        kernels="helium",
        compiler="arm-none-eabi-g++",
        flags=("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-O2"),
        board="mps3_an547",
        script="mps3_an547.ld",
        ram=512 << 10,
        flash=512 << 10,
        clock=400_000_000,
    ),
    "generic": Target(name="generic", kernels="portable", compiler="c++", flags=("-O2", "-fPIC")),
}


def find_target(name):
    """The `Target` of a name.

    Raises:
      UnsupportedModelError: no such target.
    """
    if name not in TARGETS:
        raise UnsupportedModelError(f"Expected a target of {', '.join(TARGETS)}, got {name!r}")
    return TARGETS[name]


def compile_flags(target):
    """All flags of a compilation for `target`."""
    return [*_CORE_FLAGS, *target.flags, *_KERNEL_MACRO[target.kernels]]


def micro_ops_root():
    """Folder that holds `micro_ops/`: the repository, or the sources inside the installed package.

    Raises:
      FileNotFoundError: neither is there.
    """
    package = Path(__file__).resolve().parents[1]
    for root in (package.parent, package / "_sources"):
        if (root / "micro_ops" / "core" / "niti_layers.h").is_file():
            return root
    raise FileNotFoundError(
        "Expected the C++ sources micro_ops/ beside or inside the tflm_train package, got neither: "
        "install the wheel of this release or work in a checkout"
    )


def kernel_sources(target):
    """Sources that an image of `target` is linked from, without those of its board."""
    root = micro_ops_root()
    folders = ["core", "trainer"]
    sources = [p for folder in folders for p in sorted((root / "micro_ops" / folder).glob("*.cc"))]
    if target.kernels != "portable":
        sources = [p for p in sources if p.name != "train_kernels.cc"]
        sources += sorted((root / "micro_ops" / target.kernels).glob("*.cc"))
    return sources


def board_sources(target):
    """Start-up, runtime and the serving application of a target."""
    base = micro_ops_root() / "micro_ops" / "targets"
    return [*sorted((base / "common").glob("*.cc")), *sorted((base / target.board).glob("*.cc"))]
