"""QScheduler's three stages in one go: float warm-up to a target accuracy, calibration with 25
batches, int8 with room to train.

  tflm-train three-stage model.keras --data digits --target-accuracy 0.9 --output m.tflite

The model file stays as it is; what comes out continues with `tflm-train train`.
"""

NAME = "three-stage"
HELP = "float warm-up, calibration with 25 batches, int8, in one command"


def add_arguments(parser):
    """Declare this command's arguments."""
    from tflm_train.cli import _common
    from tflm_train.cli.convert import add_conversion_arguments

    parser.add_argument("model", metavar="MODEL", help=".h5 or .keras classifier")
    _common.add_data_arguments(parser)
    parser.add_argument("--target-accuracy", type=float, required=True, metavar="A")
    parser.add_argument("--output", metavar="FILE", help="default: beside the model")
    parser.add_argument("--calibration-batches", type=int, default=25, metavar="N")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N")
    parser.add_argument("--max-epochs", type=int, default=30, metavar="N")
    parser.add_argument("--learning-rate", type=float, default=1e-3, metavar="LR")
    parser.add_argument("--weight-headroom", type=float, default=4.0, metavar="H")
    parser.add_argument("--logit-headroom", type=float, default=1.5, metavar="H")
    parser.add_argument("--seed", type=int, default=0)
    add_conversion_arguments(parser)


def run(args):
    """Warm up, convert, write, report."""
    from pathlib import Path

    from converters import three_stage
    from converters.atomic import write_bytes_atomically
    from converters.errors import ConversionError
    from converters.loading import load_model
    from tflm_train.cli import _common
    from tflm_train.cli import convert as convert_command

    out = _common.console()
    source = Path(args.model)
    if source.is_dir():
        raise ConversionError(
            f"Expected a .keras or .h5 file, got folder {source}: a SavedModel cannot be warmed up"
        )
    output = Path(args.output) if args.output else convert_command.default_output(source)
    convert_command.check_output(output)
    data = _common.load_data(args, "train")
    x, y = data.labelled()
    with _common.progress_bar(out, "warming up and calibrating") as update:
        result = three_stage(
            load_model(source),
            x,
            y,
            target_accuracy=args.target_accuracy,
            calibration_batches=args.calibration_batches,
            batch_size=args.batch_size,
            max_epochs=args.max_epochs,
            learning_rate=args.learning_rate,
            weight_headroom=args.weight_headroom,
            logit_headroom=args.logit_headroom,
            normalization=convert_command.normalization(args),
            labels=convert_command.read_labels(args.labels) or data.classes,
            trainable=args.trainable,
            calibration_clip=args.calibration_clip,
            description=args.description,
            progress=lambda stage, done, total: update(done, total),
            seed=args.seed,
        )
    write_bytes_atomically(output, result.model_bytes)
    convert_command.report(out, result.float_model, result.model_bytes, data, engine=args.engine)
    history = " ".join(f"{a:.4f}" for a in result.history)
    out.print(f"held-out accuracy before and after each warm-up epoch: {history}")
    out.print(f"{output}: {len(result.model_bytes)} bytes")
    return 0
