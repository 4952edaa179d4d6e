"""Accuracy and loss of an int8 model on a data set.

tflm-train eval model.tflite --data digits --part test --rotate 30
"""

NAME = "eval"
HELP = "accuracy and loss of a model on a data set"


def add_arguments(parser):
    """Declare this command's arguments."""
    from tflm_train.cli import _common

    parser.add_argument("model", metavar="MODEL.tflite")
    _common.add_data_arguments(parser)
    parser.add_argument("--part", default="test", choices=["train", "test"])
    _common.add_engine_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args):
    """Evaluate and print."""
    import json

    from tflm_train._evaluate import evaluate
    from tflm_train.cli import _common

    out = _common.console()
    from tflm_train import Interpreter

    interpreter = Interpreter(args.model, engine=args.engine, prefix_engine=args.prefix_engine)
    _common.warn_uncalibrated(out, interpreter.training_info)
    data = _common.load_data(args, args.part)
    with _common.progress_bar(out, "evaluating") as update:
        result = evaluate(interpreter, *data.labelled(), progress=update)
    result.update(samples=len(data), engine=args.engine, device_exact=interpreter.device_exact)
    if args.json:
        out.print_json(json.dumps(result))
        return 0
    out.print(
        f"{args.model}: accuracy {result['accuracy']:.4f}, loss {result['loss']:.4f} nats on "
        f"{len(data)} samples of {data.name} ({args.engine}"
        f"{', bit-exact with the device' if interpreter.device_exact else ''})"
    )
    return 0
