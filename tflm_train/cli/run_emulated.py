"""Train a model on an emulated board, sample by sample over its serial line, beside the host.

  tflm-train run-emulated model.tflite --target rp2040 --data digits --rotate 30 --limit 256

The board is rp2040js (a Pico) or QEMU's MPS3 AN547 (a Cortex-M55); figures are those of an
emulator. The image is built with arm-none-eabi-gcc, gets one epoch of the data, and every step's
logits and the trained tensors at the end are compared with the host's. PICTURE shows accuracy over
the epoch on both.
"""

NAME = "run-emulated"
HELP = "train on an emulated RP2040 or Cortex-M55 and compare with the host"


def add_arguments(parser):
    """Declare this command's arguments."""
    from tflm_train.cli import _common, _firmware

    parser.add_argument("model", metavar="MODEL.tflite")
    _common.add_data_arguments(parser)
    _firmware.add_arguments(parser, ["rp2040", "cortex-m55"])
    parser.add_argument("--build", metavar="FOLDER", help="sources and image (default: temporary)")
    parser.add_argument("--checks", type=int, default=8, help="accuracy points (default 8)")
    parser.add_argument(
        "--validation-limit", type=int, default=100, help="samples of each point (default 100)"
    )
    parser.add_argument("--plot", metavar="PICTURE.png", help="default MODEL.TARGET.png")
    parser.add_argument("--report", metavar="FILE.json", help="also write the figures as JSON")


def run(args):
    """Build, run, compare, report."""
    import json
    import tempfile
    from pathlib import Path

    from tflm_train._firmware.emulated_run import train_emulated
    from tflm_train.cli import _common, _firmware
    from tflm_train.data import split

    if args.infer_only:
        raise ValueError("Expected a training image, got --infer-only")
    out = _common.console()
    data, held_out = split(_common.load_data(args, "train"), 0.3, seed=args.seed)
    held_out = held_out.take(range(min(args.validation_limit, len(held_out))))
    with tempfile.TemporaryDirectory() as temporary:
        report = train_emulated(
            args.model,
            args.target,
            data.labelled(),
            held_out.labelled(),
            folder=args.build or temporary,
            checks=args.checks,
            progress=lambda text: out.print(text),
            options=_firmware.options_of(args),
        )
    picture = Path(args.plot or Path(args.model).with_suffix(f".{args.target}.png"))
    _plot(report, picture)
    if args.report:
        Path(args.report).write_text(json.dumps(report, indent=1))
    unit = "cycles" if args.target == "rp2040" else "instructions"
    mean = sum(report["counts"]) / max(1, len(report["counts"]))
    out.print(
        f"{report['steps']} steps on the emulated {args.target}: logits of every step and the CRC "
        f"of the trained tensors equal the host's. {mean:,.0f} {unit} a step on average "
        f"(emulated). Accuracy {report['accuracy'][0]:.1%} -> {report['accuracy'][-1]:.1%}; "
        f"picture {picture}"
    )
    return 0


def _plot(report, picture):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    axes.plot(report["at"], report["host_accuracy"], "o-", label="host", color="tab:blue")
    axes.plot(report["at"], report["accuracy"], "x--", label="emulated", color="tab:orange")
    axes.set(xlabel="training steps", ylabel="accuracy, held out", title=report["title"])
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(picture, dpi=120)
