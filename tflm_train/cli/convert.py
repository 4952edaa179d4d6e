"""Convert a Keras model to a fully-int8 .tflite whose scales stay fixed, ready to be trained.

  tflm-train convert model.h5 --calibration data.npz
  tflm-train convert model.keras --calibration digits --trainable last:2 --weight-headroom 4
  tflm-train convert model.h5                 # takes model.npz beside it, else synthetic noise

The calibration data must be what the model was trained on: raw data with --input-scale and
--input-offset when the model expects scaled values. Labels in the data (y) give the accuracy of
the float and the int8 model.
"""

NAME = "convert"
HELP = "Keras model (.h5, .keras, SavedModel) to a trainable int8 .tflite"

# More samples rarely widen a range, and each is one run of the float model.
_CALIBRATION_SAMPLES = 500
_ACCURACY_SAMPLES = 1000


def add_arguments(parser):
    """Declare this command's arguments."""
    from tflm_train.cli import _convert_priot

    parser.add_argument("model", metavar="MODEL", help=".h5, .keras or SavedModel folder")
    parser.add_argument(
        "--calibration",
        metavar="DATA",
        help="samples that show the range of the inputs: .npz (x, or one array per input name), "
        ".csv, folder of images, or a built-in such as digits (default: MODEL.npz beside the "
        "model, else synthetic noise and a warning)",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="the .tflite to write (default: beside the model)"
    )
    add_conversion_arguments(parser)
    parser.add_argument(
        "--weights",
        default="per-tensor",
        choices=["per-tensor", "per-channel"],
        help="scales of dense kernels (default per-tensor, which every TFLM runs)",
    )
    parser.add_argument(
        "--scales",
        default="affine",
        choices=["affine", "power-of-two"],
        help="power-of-two: symmetric, zero point 0, every scale 2^e (default affine)",
    )
    parser.add_argument(
        "--method",
        default="zo",
        choices=["zo", "priot", "priot-s", "niti"],
        help="training method (default zo); the others take power-of-two scales, need labels in "
        "the calibration data and train every layer",
    )
    parser.add_argument(
        "--calibration-samples",
        type=int,
        default=_CALIBRATION_SAMPLES,
        metavar="N",
        help=f"use N samples, drawn evenly (default {_CALIBRATION_SAMPLES})",
    )
    parser.add_argument(
        "--weight-headroom",
        type=float,
        default=1.0,
        metavar="H",
        help="range of trainable weights over their largest magnitude; 4 suits long fine-tuning "
        "(default 1)",
    )
    parser.add_argument(
        "--logit-headroom",
        type=float,
        default=1.0,
        metavar="H",
        help="range of the logits over the calibrated one; 1 to 2 (default 1)",
    )
    parser.add_argument(
        "--evaluate",
        metavar="DATA",
        help="labelled data, its test part if it has one, for the accuracy of the float and the "
        "int8 model (default: the calibration data)",
    )
    parser.add_argument(
        "--evaluate-samples",
        type=int,
        default=_ACCURACY_SAMPLES,
        metavar="N",
        help=f"evaluate on N samples, drawn evenly (default {_ACCURACY_SAMPLES})",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of synthetic noise (default 0)")
    _convert_priot.add_arguments(parser.add_argument_group("priot, priot-s, niti"))


def add_conversion_arguments(parser):
    """Options that `three-stage` shares."""
    parser.add_argument(
        "--trainable",
        default="last",
        metavar="WHICH",
        help="last, last:K, all, layer names separated by commas, bias, or bias:WHICH "
        "(default last)",
    )
    parser.add_argument(
        "--calibration-clip",
        type=float,
        metavar="P",
        help="cut inputs at percentiles P and 100-P, against outliers; for instance 0.5",
    )
    parser.add_argument(
        "--labels", metavar="NAMES", help="class names: a text file, one a line, or a,b,c"
    )
    parser.add_argument(
        "--input-scale",
        type=float,
        default=1.0,
        metavar="S",
        help="model input = raw data * S + O (default 1)",
    )
    parser.add_argument(
        "--input-offset", type=float, default=0.0, metavar="O", help="see --input-scale (default 0)"
    )
    parser.add_argument("--description", metavar="TEXT", help="one line about the model")
    parser.add_argument(
        "--engine",
        default="native",
        choices=["native", "litert", "litert-ref"],
        help="what measures the int8 accuracy (default native, bit-exact with TFLM)",
    )


def run(args):
    """Convert, write, report."""
    from pathlib import Path

    from converters import convert
    from converters.atomic import write_bytes_atomically
    from converters.loading import load_model
    from tflm_train.cli import _common, _convert_priot
    from tflm_train.data import load_dataset

    out = _common.console()
    source = Path(args.model)
    output = Path(args.output) if args.output else default_output(source)
    check_output(output)
    found = args.calibration
    if found is None and source.with_suffix(".npz").is_file():
        found = str(source.with_suffix(".npz"))
        out.print(f"calibrating on {found}")
    calibration, dataset = load_calibration(found)
    held_out = load_dataset(args.evaluate, part="test") if args.evaluate else dataset
    model = load_model(source)
    with _common.progress_bar(out, "calibrating") as update:
        raw = convert(
            model,
            calibration=calibration,
            method=args.method,
            targets=None if dataset is None else dataset.y,
            method_options=_convert_priot.options(args),
            weights=args.weights,
            scales=args.scales,
            calibration_clip=args.calibration_clip,
            trainable=args.trainable,
            weight_headroom=args.weight_headroom,
            logit_headroom=args.logit_headroom,
            labels=read_labels(args.labels) or (dataset.classes if dataset else None),
            normalization=normalization(args),
            description=args.description,
            calibration_samples=args.calibration_samples,
            progress=update,
            seed=args.seed,
        )
    written = raw
    if args.graph == "train":
        from converters.train_graph import train_graph

        written = train_graph(raw, seed=args.seed)
    write_bytes_atomically(output, written)
    report(out, model, raw, held_out, engine=args.engine, samples=args.evaluate_samples)
    out.print(f"{output}: {len(written)} bytes")
    return 0


def default_output(source):
    """`model.tflite` beside `model.h5`, `folder.tflite` beside a SavedModel folder."""
    return (
        source.with_suffix(".tflite")
        if source.suffix
        else source.with_name(source.name + ".tflite")
    )


def check_output(output):
    """Refuse an output that cannot be written, before minutes of conversion.

    Raises:
      ConversionError: its folder does not exist or is read-only, or it is a folder itself.
    """
    import os

    from converters.errors import ConversionError

    if not output.parent.is_dir():
        raise ConversionError(f"Expected an existing folder for the output, got {output.parent}")
    if not os.access(output.parent, os.W_OK):
        raise ConversionError(
            f"Expected a folder that can be written, got {output.parent}: give --output elsewhere"
        )
    if output.is_dir():
        raise ConversionError(f"Expected a file name as output, got the folder {output}")


def load_calibration(source):
    """(what `convert` takes as calibration, labelled `Dataset` or None) for what a user names."""
    from pathlib import Path

    from converters.errors import DataError
    from tflm_train.data import load_dataset

    if source is None:
        return None, None
    path = Path(source)
    if path.suffix != ".npz":
        dataset = load_dataset(source)
        return dataset.x, dataset
    try:
        dataset = load_dataset(source)
    except DataError:
        # Arrays named after several inputs are no data set; convert reads them by name and
        # explains what it misses.
        return path, None
    return dataset.x, dataset


def read_labels(text):
    """Class names from a file, one a line, or from a comma-separated list; () for None."""
    from pathlib import Path

    if not text:
        return ()
    path = Path(text)
    if path.is_file():
        return tuple(line.strip() for line in path.read_text().splitlines() if line.strip())
    return tuple(part.strip() for part in text.split(",") if part.strip())


def normalization(args):
    """The `normalization` option of `--input-scale` and `--input-offset`."""
    if args.input_scale == 1.0 and args.input_offset == 0.0:
        return None
    return {"scale": args.input_scale, "offset": args.input_offset}


def report(out, model, raw, dataset, *, engine, samples=_ACCURACY_SAMPLES):
    """Print operators, scales, shapes and trainable marks, and both accuracies given labels."""
    from tflm_train._describe import describe
    from tflm_train.cli import inspect

    inspect.print_description(out, describe(raw))
    if dataset is not None and dataset.y is not None:
        _report_accuracy(out, model, raw, dataset, engine, samples)


def _report_accuracy(out, model, raw, dataset, engine, samples):
    import numpy as np

    from converters.float_model import classification_accuracy, float_predictor
    from tflm_train import Interpreter
    from tflm_train.cli import _common

    if len(dataset) > samples:
        picked = np.linspace(0, len(dataset) - 1, max(samples, 1)).astype(int)
        dataset = dataset.take(picked)
    interpreter = Interpreter(raw, engine=engine)
    scale = interpreter.training_info.normalization.get("scale", 1.0)
    offset = interpreter.training_info.normalization.get("offset", 0.0)
    shape = interpreter.input_specs[0].shape
    x = np.asarray(dataset.x, np.float32).reshape(len(dataset), *shape[1:]) * scale + offset
    before = classification_accuracy(float_predictor(model)([x]), dataset.y)
    with _common.progress_bar(out, "evaluating") as update:
        features = interpreter.features(dataset.x, progress=update)
    logits = interpreter.logits_spec.dequantize(interpreter.run_suffix(features))
    # A single probability turns at 0.5, the logit behind it at 0.
    turning = 0.5 if interpreter.logits_spec.index == interpreter.output_spec.index else 0.0
    after = classification_accuracy(logits, dataset.y, turning=turning)
    out.print(
        f"accuracy on {len(dataset)} samples of {dataset.name}: float {before:.4f}, "
        f"int8 {after:.4f} ({interpreter.engine_name})"
    )
