"""Build the images of one model for the emulated boards: inference, and its training method.

python -m tflm_train._firmware.images model.tflite --output out/firmware
"""

import argparse
import logging
import sys
from pathlib import Path

from converters.errors import TflmTrainError
from tflm_train._firmware.build import build_image, missing_tools, write_sources
from tflm_train._firmware.emulators import install_rp2040js, missing_emulator
from tflm_train._firmware.source import make_source

BOARDS = ("rp2040", "cortex-m55")
_log = logging.getLogger("tflm_train")


def build_images(model, folder, *, targets=BOARDS, **options):
    """`infer` and `train_<method>` images of a model for each target.

    Args:
      model: path of a `.tflite`.
      folder: where sources and images go.
      targets: names of targets.
      **options: of `make_source`.

    Returns:
      `{(target, image name): Image}`.
    """
    images = {}
    for target in targets:
        for trains in (False, True):
            source = make_source(model, target, trains=trains, **options)
            method = getattr(getattr(source, "chain", None), "method", "zo")
            name = f"train_{method.replace('-', '_')}" if trains else "infer"
            place = Path(folder) / target / Path(model).stem / name
            write_sources(source.files(), place)
            images[target, name] = build_image(place, target, name=name)
    return images


def _main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL.tflite")
    parser.add_argument("--output", default="out/firmware")
    parser.add_argument("--tools", action="store_true", help="install rp2040js first")
    args = parser.parse_args()
    try:
        if args.tools:
            install_rp2040js()
        for target in BOARDS:
            reason = missing_tools(target) or missing_emulator(target)
            if reason:
                _log.info("%s: not complete here: %s", target, reason)
        targets = [t for t in BOARDS if missing_tools(t) is None]
        for model in args.models:
            for (target, name), image in build_images(model, args.output, targets=targets).items():
                _log.info(
                    "%-10s %-16s code %6d  constants %7d  RAM %7d  %s",
                    target, name, image.text, image.rodata, image.ram, image.path,
                )  # fmt: skip
    except (TflmTrainError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
