"""The kernels on the smallest target: no heap, no floating point, no exception, no big stack."""

import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CORE = REPOSITORY / "micro_ops" / "core"

# float_shadow is for machines with a float unit; its function is dropped where nothing calls it.
FLOAT_ALLOWED = {"zo_update.cc"}
HEAP = {"malloc", "free", "calloc", "realloc", "_Znwj", "_Znaj", "_ZdlPv", "_ZdaPv"}
# Soft-float helpers of the ARM run-time ABI: __aeabi_fadd, __aeabi_d2iz, __aeabi_i2f, ...
FLOAT_PREFIXES = (
    "__aeabi_f",
    "__aeabi_d",
    "__aeabi_i2f",
    "__aeabi_i2d",
    "__aeabi_ui2",
    "__aeabi_l2",
)


def compiler(prefix):
    path = shutil.which(f"{prefix}-g++")
    if path is None:
        pytest.skip(f"no {prefix}-g++ on this machine")
    return path


def compile_core(prefix, flags, folder):
    """Object files of all core sources, by source name."""
    objects = {}
    for source in sorted(CORE.glob("*.cc")):
        target = folder / (source.stem + ".o")
        command = [
            *(compiler(prefix), *flags, "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror"),
            *("-fno-exceptions", "-fno-rtti", "-ffunction-sections", "-I", str(REPOSITORY)),
            *("-c", str(source), "-o", str(target)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{source.name}:\n{done.stderr}"
        objects[source.name] = target
    return objects


def undefined(prefix, path):
    """Symbols an object needs from elsewhere."""
    command = [f"{prefix}-nm", "--undefined-only", "--format=just-symbols", str(path)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.fixture(scope="module")
def m0_objects(tmp_path_factory):
    folder = tmp_path_factory.mktemp("m0plus")
    return compile_core("arm-none-eabi", ["-mcpu=cortex-m0plus", "-mthumb"], folder)


def test_no_kernel_calls_the_heap_on_cortex_m0_plus(m0_objects):
    for name, path in m0_objects.items():
        assert not undefined("arm-none-eabi", path) & HEAP, name


def test_no_integer_kernel_calls_soft_float_on_cortex_m0_plus(m0_objects):
    for name, path in m0_objects.items():
        found = {s for s in undefined("arm-none-eabi", path) if _is_float(s)}
        assert not found or name in FLOAT_ALLOWED, f"{name} calls {sorted(found)}"


def _is_float(symbol):
    # Integer helpers that share a prefix: division of 32-bit numbers is no float.
    return symbol.startswith(FLOAT_PREFIXES) and not symbol.startswith("__aeabi_idiv")


@pytest.mark.nightly
def test_the_kernels_compile_for_cortex_m55_and_aarch64(tmp_path):
    (tmp_path / "m55").mkdir()
    flags = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"]
    assert compile_core("arm-none-eabi", flags, tmp_path / "m55")
    if shutil.which("aarch64-linux-gnu-g++"):
        (tmp_path / "aarch64").mkdir()
        assert compile_core("aarch64-linux-gnu", [], tmp_path / "aarch64")


@pytest.mark.nightly
def test_the_neon_kernels_give_the_golden_outputs_under_emulation(tmp_path):
    cross = compiler("aarch64-linux-gnu")
    emulator = shutil.which("qemu-aarch64")
    if emulator is None:
        pytest.skip("no qemu-aarch64 on this machine")
    sources = sorted(CORE.glob("*.cc")) + sorted(
        p for p in (REPOSITORY / "micro_ops" / "host").glob("*.cc") if not p.name.startswith("bind")
    )
    golden = REPOSITORY / "tests" / "core" / "golden_kernels.bin"
    flags = ["-O2", "-std=c++17", "-static", "-I", str(REPOSITORY)]
    flags.append(f'-DTFLM_TRAIN_GOLDEN="{golden}"')
    for test in ("engine_golden_test", "zo_engine_test"):
        target = tmp_path / test
        main = REPOSITORY / "tests" / "core" / f"{test}.cc"
        command = [cross, *flags, str(main), *map(str, sources), "-lpthread", "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        done = subprocess.run(
            [emulator, str(target)], capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stdout + done.stderr
