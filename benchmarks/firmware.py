"""Firmware under emulation: cycles of a training step on RP2040, instructions on Cortex-M55, sizes.

  python -m benchmarks firmware [--steps 40] [--nets tiny_cnn_s2 tiny_cnn] [--json out.json]

RP2040 is rp2040js, whose counter charges the cycles of a Cortex-M0+ without flash-cache misses;
Cortex-M55 is QEMU's MPS3 AN547 with instructions counted by a TCG plug-in. No figure is of a board.
Samples are digits rotated by 30 degrees, `tiny_cnn_s2` and `tiny_cnn` converted for each method.
The peer is CMSIS-NN (the sources in PyPI's `bakenn`, fetched with pip into the build folder).
`make firmware-bench` is a short form on `tiny_cnn_s2`.
"""

import argparse
import glob
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

import tflm_train
from tflm_train._firmware.build import build_image, missing_tools, write_sources
from tflm_train._firmware.count import counting_plugin
from tflm_train._firmware.emulators import (
    Emulator,
    EmulatorError,
    install_rp2040js,
    missing_emulator,
)
from tflm_train._firmware.host_twin import ChainTwin
from tflm_train._firmware.source import make_source
from tflm_train.data import load_dataset, rotate

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models"
# PRIOT paper: milliseconds of a PRIOT step on a Raspberry Pi Pico, taken as 125 MHz. The net is the
# paper's tiny CNN, whose 52,092 weights these nets share; its strides are not printed.
PAPER_MS = {"priot": 64.58}
CLOCK = 125e6
# Multiplications of a step if nothing is zero: forward, errors of all layers but one, update.
STEP_MACS = {"tiny_cnn_s2": 301_356 + 273_132 + 301_356, "tiny_cnn": 1_063_404 * 3 - 112_896}


def converted(folder, arch, method):
    """Path of a reference net converted for a method."""
    path = Path(folder) / f"{arch}_{method}.tflite"
    if not path.is_file():
        data = load_dataset("digits", part="train")
        x = data.x[:1024].reshape(-1, 28, 28, 1)
        targets = None if method == "zo" else data.y[:1024]
        raw = tflm_train.convert(
            str(MODELS / f"{arch}.h5"), calibration=x, targets=targets, method=method,
            normalization={"scale": 1 / 256, "offset": 0.0},
        )  # fmt: skip
        path.write_bytes(raw)
    return path


def step_counts(folder, arch, method, target, steps):
    """Counts of `steps` training steps, each equal to the host's, and the image."""
    source = make_source(converted(folder, arch, method), target, **zo_options(method))
    place = Path(folder) / f"{arch}_{method}_{target}"
    write_sources(source.files(), place)
    image = build_image(place, target)
    data = load_dataset("digits", part="train")
    x = rotate(data.x[2048 : 2048 + steps], 30)
    labels = data.y[2048 : 2048 + steps].astype(np.int32)
    if method == "zo":
        interpreter = tflm_train.Interpreter(converted(folder, arch, method))
        codes, twin = interpreter.quantize(x.reshape(-1, 28, 28, 1))[0].reshape(steps, -1), None
    else:
        codes, twin = (x >> 1).astype(np.int8).reshape(steps, -1), ChainTwin(None, source.chain)
    plugin = counting_plugin(image.path) if target == "cortex-m55" else None
    trained, skipped = [], []
    with Emulator(image.path, target, plugin=plugin, timeout=600) as emulator:
        for sample, label in zip(codes, labels, strict=True):
            result, _, logits = emulator.client.train(sample[None], [label])
            (trained if result == 1 else skipped).append(emulator.last_count())
            if twin is not None:
                want = twin.step(sample[None], np.array([label], np.int32))
                assert np.array_equal(want, logits), "the emulated step differs from the host's"
        if twin is not None:
            assert emulator.client.crc() == twin.crc()
    return trained, skipped, image


def zo_options(method):
    """One sample and four directions; the other methods take no such options."""
    return {"q": 4, "momentum": 0.9} if method == "zo" else {}


def peer_counts(folder):
    """Instructions {name: (CMSIS-NN unmasked, ours masked)} on the emulated Cortex-M55."""
    folder = Path(folder)
    wheels = glob.glob(str(folder / "bakenn*.whl"))
    if not wheels:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "bakenn", "-d",
             str(folder)],
            check=True,
        )  # fmt: skip
        wheels = glob.glob(str(folder / "bakenn*.whl"))
    unpacked = folder / "bakenn"
    if not unpacked.is_dir():
        zipfile.ZipFile(wheels[0]).extractall(unpacked)
    vendor = next(unpacked.rglob("cmsis_nn/vendor"))
    nn, core = vendor / "cmsis_nn", vendor / "cmsis_core"
    names = ("arm_convolve_s8", "arm_fully_connected_s8", "arm_nn_mat_mult_s8",
             "arm_nn_mat_mul_core_4x_s8", "arm_nn_mat_mul_core_1x_s8", "arm_nn_vec_mat_mult_t_s8",
             "arm_convolve_get_buffer_sizes_s8", "arm_nn_mat_mult_nt_t_s8")  # fmt: skip
    sources = [p for name in names for p in nn.rglob(f"{name}.c")]
    place = folder / "peer"
    place.mkdir(exist_ok=True)
    includes = [f"-I{nn / 'Include'}", f"-I{core / 'Include'}", f"-I{place}"]
    objects = []
    for source in sources:
        objects.append(place / f"{source.stem}.o")
        subprocess.run(
            ["arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-Ofast",
             "-ffunction-sections", *includes, "-c", str(source), "-o", str(objects[-1])],
            check=True, capture_output=True,
        )  # fmt: skip
    image = build_image(
        place, "cortex-m55", name="peer", board=False, objects=objects,
        extra_sources=[Path(__file__).with_suffix("").with_name("firmware_peer.cc")],
        flags=["-isystem", str(nn / "Include"), "-isystem", str(core / "Include")],
    )  # fmt: skip
    with Emulator(image.path, "cortex-m55", plugin=counting_plugin(image.path)) as emulator:
        code = emulator.wait()
        if code != 0:
            raise RuntimeError(f"the peer's outputs differ from ours (code {code})")
        counts = [emulator.last_count() for _ in range(6)]
    names = ("conv 14x14x16 -> 7x7x32 (border)", "conv 15x15x16 -> 7x7x32", "dense 1568 -> 30")
    return {name: counts[2 * i : 2 * i + 2] for i, name in enumerate(names)}


def _report_steps(results, arch, method, target, trained, skipped, image):
    unit = "cycles" if target == "rp2040" else "instructions"
    row = {
        "arch": arch, "method": method, "target": target, "unit": unit,
        "trained_mean": float(np.mean(trained)) if trained else None,
        "trained_max": int(max(trained)) if trained else None, "trained_steps": len(trained),
        "skipped_mean": float(np.mean(skipped)) if skipped else None,
        "skipped_steps": len(skipped), "text": image.text, "rodata": image.rodata,
        "ram": image.ram,
    }  # fmt: skip
    text = f"{target:10} {arch:11} {method:7}"
    if trained:
        text += f" {row['trained_mean']:12,.0f} (max {row['trained_max']:,}) {unit}"
        if arch in STEP_MACS and method != "zo":
            row["per_mac"] = row["trained_mean"] / STEP_MACS[arch]
            text += f", {row['per_mac']:.2f} per MAC"
        if target == "rp2040":
            row["ms_at_125_mhz"] = row["trained_mean"] / CLOCK * 1e3
            text += f", {row['ms_at_125_mhz']:.1f} ms at 125 MHz"
            if method in PAPER_MS and arch == "tiny_cnn_s2":
                row["share_of_paper"] = row["ms_at_125_mhz"] / PAPER_MS[method]
                text += f" = {row['share_of_paper']:.0%} of the paper's {PAPER_MS[method]} ms"
    if skipped:
        text += f"; sample without error {row['skipped_mean']:,.0f}"
    print(text)
    print(f"{'':30} code {image.text:,}, constants {image.rodata:,}, RAM {image.ram:,} bytes")
    results.append(row)


def main(argv=None):
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40, help="samples of priot, priot-s and niti")
    parser.add_argument("--nets", nargs="+", choices=list(STEP_MACS), default=list(STEP_MACS))
    parser.add_argument("--build", metavar="FOLDER", help="default: a temporary folder")
    args = parser.parse_args(argv)
    results, reasons = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(args.build or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            install_rp2040js()
        except EmulatorError as error:
            print(f"rp2040js: {error}")  # said again below as what is left out
        for target in ("rp2040", "cortex-m55"):
            reason = missing_tools(target) or missing_emulator(target)
            if reason:
                reasons.append(reason)
                print(f"{target}: left out: {reason}")
                continue
            for arch in args.nets:
                for method in ("priot", "priot-s", "niti", "zo"):
                    steps = args.steps if method != "zo" else 3
                    counts = step_counts(folder, arch, method, target, steps)
                    _report_steps(results, arch, method, target, *counts)
        peers = {}
        if missing_emulator("cortex-m55") is None and missing_tools("cortex-m55") is None:
            try:
                peers = peer_counts(folder)
            except subprocess.CalledProcessError as error:
                reasons.append(f"CMSIS-NN: {' '.join(map(str, error.cmd[:5]))} failed")
                print(f"the peer is left out: {reasons[-1]}")
            for name, (peer, ours) in peers.items():
                print(f"cortex-m55 {name}: CMSIS-NN unmasked {peer:,} instructions, masked here "
                      f"{ours:,}: {ours / peer:.2f}")  # fmt: skip
    return {"steps": results, "peers": peers, "left_out": reasons, "emulated": True}
