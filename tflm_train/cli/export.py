"""Write a trained model in the form that a device takes.

  tflm-train export model.trained.tflite --freeze --output model.frozen.tflite

--freeze turns a PRIOT, PRIOT-S or NITI model into a plain .tflite: pruned weights are zeros, the
operators are TFLite's own, and stock TFLM computes the outputs of the masked model bit for bit.
"""

NAME = "export"
HELP = "write a trained model for deployment: --freeze gives a plain .tflite"


def add_arguments(parser):
    """Declare this command's arguments."""
    parser.add_argument("model", metavar="MODEL.tflite")
    parser.add_argument("--format", default="tflite", choices=["tflite"], help="default tflite")
    parser.add_argument(
        "--freeze", action="store_true", help="builtin operators only, pruned weights as zeros"
    )
    parser.add_argument(
        "--output", metavar="FILE", help="default MODEL.frozen.tflite beside the model"
    )


def run(args):
    """Export and report."""
    from pathlib import Path

    from converters.atomic import write_bytes_atomically
    from converters.flatbuffer import load_bytes
    from converters.priot_freeze import freeze
    from tflm_train.cli import _common

    if not args.freeze:
        raise ValueError(
            "Expected --freeze with --format tflite, got no form to export: a .tflite is already "
            "the training form"
        )
    output = Path(args.output or Path(args.model).with_suffix(".frozen.tflite"))
    if not output.resolve().parent.is_dir():
        raise ValueError(f"Expected an existing folder for {output}: create it")
    raw = freeze(load_bytes(args.model))
    write_bytes_atomically(output, raw)
    _common.console().print(f"{output}: {len(raw)} bytes, builtin operators only")
    return 0
