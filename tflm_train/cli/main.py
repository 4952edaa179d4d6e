"""The command `tflm-train`: one file per sub-command beside this one."""

import argparse
import importlib
import logging
import os
import sys

from absl import app
from absl.flags import argparse_flags

from converters.errors import TflmTrainError

# Modules of this package, in the order help lists them. Each has NAME, HELP, add_arguments(parser)
# and run(args) -> exit code.
_COMMANDS = (
    "convert",
    "three_stage",
    "train",
    "eval",
    "inspect",
    "replay",
    "export",
    "plan",
    "run_emulated",
    "reproduce",
)

_DESCRIPTION = """\
Train fully-int8 TFLite models where no backward pass or float unit exists.

A first run:
  tflm-train convert model.h5 --calibration data.npz     # Keras -> int8 with fixed scales
  tflm-train eval    model.tflite --data data.npz        # accuracy before
  tflm-train train   model.tflite --data data.npz        # forward-only fine-tuning
  tflm-train inspect model.trained.tflite                # scales, trainable tensors, labels
"""


def make_parser():
    """The parser with every sub-command."""
    parser = argparse_flags.ArgumentParser(
        prog="tflm-train",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in _COMMANDS:
        module = importlib.import_module(f"tflm_train.cli.{name}")
        sub = commands.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            inherited_absl_flags=None,
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def _parse(argv):
    return make_parser().parse_args(argv[1:])


def _run(args):
    try:
        return args.run(args)
    except TflmTrainError as error:
        return _fail(error)
    except (OSError, ValueError) as error:
        # A wrong option or an unwritable path: the user's to mend, so a line rather than a trace.
        if os.environ.get("TFLM_TRAIN_TRACE"):
            raise
        return _fail(error)
    except KeyboardInterrupt:
        _fail("stopped; run the same command again (train: with --resume) to go on")
        return 130


def _fail(error):
    sys.stderr.write(f"tflm-train: error: {error}\n")
    return 2


def main():
    """Entry point of the console script."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    app.run(_run, flags_parser=_parse)


if __name__ == "__main__":
    main()
