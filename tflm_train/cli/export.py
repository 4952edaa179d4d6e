"""Write a trained model in the form that a device takes.

  tflm-train export model.trained.tflite --freeze --output model.frozen.tflite
  tflm-train export model.trained.tflite --graph train --output model.train.tflite
  tflm-train export model.tflite --format c --target rp2040 --output firmware/

--freeze turns a PRIOT, PRIOT-S or NITI model into a plain .tflite: pruned weights are zeros, the
operators are TFLite's own, and stock TFLM computes the outputs of the masked model bit for bit.

--graph train writes the graph whose Invoke() in TFLM is one training step (docs/tflm.md).

--format c writes C++ with a C interface (model.h) that infers and trains without an interpreter, a
heap or a float unit, together with the kernels it calls and a CMake target (docs/firmware.md).
"""

NAME = "export"
HELP = "write a trained model for deployment: --freeze gives a plain .tflite, --format c firmware"


def add_arguments(parser):
    """Declare this command's arguments."""
    from tflm_train.cli import _firmware

    parser.add_argument("model", metavar="MODEL.tflite")
    parser.add_argument(
        "--format", default="tflite", choices=["tflite", "c"], help="default tflite"
    )
    parser.add_argument(
        "--freeze", action="store_true", help="builtin operators only, pruned weights as zeros"
    )
    parser.add_argument(
        "--graph", choices=["train"], help="a training graph for TFLM, from where the model stands"
    )
    parser.add_argument(
        "--output", metavar="PATH", help="a file, default MODEL.frozen.tflite; for c a folder"
    )
    _firmware.add_arguments(parser, ["generic", "rp2040", "cortex-m55"])


def run(args):
    """Export and report."""
    return {"tflite": _export_tflite, "c": _export_c}[args.format](args)


def _export_tflite(args):
    from pathlib import Path

    from converters.atomic import write_bytes_atomically
    from converters.flatbuffer import load_bytes
    from converters.priot_freeze import freeze
    from converters.train_graph import train_graph
    from tflm_train.cli import _common

    if args.freeze == (args.graph is not None):
        found = "both" if args.freeze else "neither: a .tflite is the host's training form already"
        raise ValueError(f"Expected --freeze or --graph train with --format tflite, got {found}")
    suffix = ".frozen.tflite" if args.freeze else ".train.tflite"
    output = Path(args.output or Path(args.model).with_suffix(suffix))
    if not output.resolve().parent.is_dir():
        raise ValueError(f"Expected an existing folder for {output}: create it")
    raw = load_bytes(args.model)
    raw = freeze(raw) if args.freeze else train_graph(raw)
    write_bytes_atomically(output, raw)
    what = "builtin operators only" if args.freeze else "one Invoke() is one training step"
    _common.console().print(f"{output}: {len(raw)} bytes, {what}")
    return 0


def _export_c(args):
    from pathlib import Path

    from tflm_train._firmware.build import write_sources
    from tflm_train._firmware.source import export_files
    from tflm_train.cli import _common, _firmware

    if args.freeze or args.graph:
        raise ValueError("Expected --freeze and --graph with --format tflite only, got --format c")
    output = Path(args.output or Path(args.model).with_suffix(".c"))
    if output.exists() and not output.is_dir():
        raise ValueError(f"Expected a folder for --output, got the file {output}")
    source = _firmware.source_of(args)
    files = export_files(source, args.target)
    write_sources(files, output)
    state = source.state_bytes if source.trains else 0
    _common.console().print(
        f"{output}/: {len(files)} files, start with model.h. RAM: {source.arena_bytes} bytes of "
        f"arena and {state} of training state; tflm-train plan says more"
    )
    return 0
