"""Show what a .tflite holds: inputs and outputs with their scales, operators, trainable tensors,
training method, labels and normalisation.

  tflm-train inspect model.tflite
"""

NAME = "inspect"
HELP = "scales, operators, trainable tensors and metadata of a .tflite"


def add_arguments(parser):
    """Declare this command's arguments."""
    parser.add_argument("model", metavar="MODEL.tflite")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args):
    """Read and print."""
    import json

    from tflm_train._describe import describe
    from tflm_train.cli import _common

    out = _common.console()
    found = describe(args.model)
    if args.json:
        out.print_json(json.dumps(found))
        return 0
    print_description(out, found)
    return 0


def print_description(out, found):
    """Print what `describe` found; `convert` ends with it too."""
    from rich.table import Table

    from tflm_train.cli import _common

    for kind in ("inputs", "outputs"):
        for t in found[kind]:
            out.print(
                f"{kind[:-1]} {t['name']}: {t['dtype']} {t['shape']}, scale {t['scale']:.6g}, "
                f"zero_point {t['zero_point']}"
            )
    table = Table("#", "operator", "weights", "weight scale", "output", "scale", "trainable")
    for op in found["operators"]:
        table.add_row(
            str(op["index"]),
            op["op"],
            str(op["weights"] or ""),
            op["weight_scale"],
            str(op["output"]),
            f"{op['output_scale']:.6g}",
            ", ".join(op["trainable"]),
        )
    out.print(table)
    training = found["training"]
    if training is None:
        out.print("no training entry: converted by another tool")
    else:
        out.print(f"method {training['method']}, {found['trainable_elements']} trainable elements")
        if not training["calibrated"]:
            out.print(f"[bold red]warning:[/] {_common.UNCALIBRATED}")
    for key in ("name", "description", "labels", "normalization"):
        if found.get(key):
            out.print(f"{key}: {found[key]}")
