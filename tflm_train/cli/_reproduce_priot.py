"""Transfer of a pre-trained int8 net to rotated images in integers alone: the PRIOT paper's table.

  tflm-train reproduce priot --seeds 5 --json out.json
  tflm-train reproduce priot --arch tiny_cnn_s2
  tflm-train reproduce priot --dataset cifar10 --seeds 1 --mu 3

Every row trains 30 epochs on 1,024 rotated images and is tested on 1,024 others, at 30 and 45
degrees. Printed: the accuracy at the epoch of the best training accuracy (as the paper selects), at
the last epoch, the noise (standard deviation of the change from one epoch to the next over the last
ten), and the paper's figure. Settings were chosen on a validation set (--validation) that
the printed table never sees.
"""

NAME = "priot"
HELP = "PRIOT, PRIOT-S and NITI on rotated MNIST or CIFAR-10"


def add_arguments(parser):
    """Declare this experiment's arguments."""
    parser.add_argument("--dataset", default="mnist", choices=["mnist", "cifar10"])
    parser.add_argument("--data", metavar="FILE.npz", help="x_train, y_train, x_test, y_test")
    parser.add_argument(
        "--arch",
        choices=["tiny_cnn", "tiny_cnn_s2", "vgg11"],
        help="default tiny_cnn; cifar10: vgg11",
    )
    parser.add_argument(
        "--model", metavar="FILE", help="pre-trained Keras model (default examples/models/ARCH.h5)"
    )
    parser.add_argument("--seeds", type=int, default=5, help="runs per cell (default 5)")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--angles", default="30,45", metavar="A,B")
    parser.add_argument("--rows", metavar="TEXT", help="only rows whose name contains TEXT")
    parser.add_argument(
        "--mu",
        type=int,
        help="held constant, of the rows that do not name theirs (default 2, decayed)",
    )
    parser.add_argument("--processes", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--limit", type=int, default=1024, help="images per set (default 1024)")
    parser.add_argument(
        "--validation",
        action="store_true",
        help="measure on the validation set, to choose settings",
    )
    parser.add_argument(
        "--ablation", action="store_true", help="instead: from the paper's PRIOT to ours, by steps"
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write every run as it ends; a stopped table with the same settings goes on there",
    )
    parser.add_argument(
        "--pictures", metavar="FOLDER", help="write accuracy history and score distribution there"
    )


def run(args):
    """Convert, train, print the table, write pictures and JSON."""
    import time
    from pathlib import Path

    from tflm_train.cli import _common
    from tflm_train.priot import _pictures, _reproduce, _resume
    from tflm_train.priot.datasets import cifar10_source, mnist_source

    out = _common.console()
    angles = _angles(args.angles)
    if min(args.seeds, args.epochs, args.processes, args.limit) < 1:
        raise ValueError("Expected --seeds, --epochs, --processes and --limit of 1 or more")
    for path in (args.json, args.pictures):
        if path and not Path(path).resolve().parent.is_dir():
            raise ValueError(f"Expected an existing folder for {path}: create it")
    every = _reproduce.ABLATION if args.ablation else _reproduce.ROWS
    rows = [row for row in every if not args.rows or args.rows in row.name]
    if not rows:
        names = ", ".join(row.name for row in every)
        raise ValueError(f"Expected --rows to match one of {names}; got {args.rows!r}")
    if args.mu is not None:
        if not 0 <= args.mu <= 7:
            raise ValueError(f"Expected --mu of 0 to 7, got {args.mu}")
        rows = [row if "mu" in row.options else row.with_constant_mu(args.mu) for row in rows]
    arch = args.arch or ("vgg11" if args.dataset == "cifar10" else "tiny_cnn")
    source = mnist_source(args.data) if args.dataset == "mnist" else cifar10_source(args.data)
    began = time.monotonic()
    out.print(f"{arch} on {source.name}; converting")
    needed = [name for name in _reproduce.MODELS if any(row.model == name for row in rows)]
    with _common.progress_bar(out, "converting") as update:
        models = _reproduce.convert_all(
            _model_path(args.model, arch), source, names=needed, progress=update
        )
    upright = _reproduce.upright_accuracy(next(iter(models.values())), source)
    out.print(f"upright accuracy of the int8 net: {100 * upright:.2f} %")
    settings = _resume.settings(
        models, source, rows, epochs=args.epochs, limit=args.limit, validation=args.validation
    )
    done, others = [], []
    for found in _resume.finished(args.json, settings):
        asked = found["angle"] in angles and found["seed"] < args.seeds
        (done if asked else others).append(found)
    if done:
        out.print(f"{len(done)} runs taken from {args.json}; to make them again, remove it")
    with _common.progress_bar(out, "training") as update:

        def progress(results, total):
            update(len(results), total)
            if args.json:
                _resume.save(args.json, settings, results + others)
            if (
                not out.is_terminal
                and (len(results) * 10) // total > (len(results) - 1) * 10 // total
            ):
                out.print(f"{len(results)} of {total} runs, {time.monotonic() - began:.0f} s")

        results = _reproduce.reproduce(
            models,
            source,
            angles=angles,
            seeds=args.seeds,
            epochs=args.epochs,
            rows=rows,
            processes=args.processes,
            on_validation=args.validation,
            sizes=(args.limit, args.limit),
            done=done,
            progress=progress,
        )
    table = _reproduce.summarise(results, rows)
    footprints = _reproduce.footprints(models)
    _print(out, table, rows, angles, footprints, args, source)
    seconds = time.monotonic() - began
    out.print(f"{len(results)} runs in {seconds / 60:.1f} minutes")
    if args.pictures:
        folder = Path(args.pictures)
        folder.mkdir(exist_ok=True)
        for path in _pictures.draw(results, rows, folder, title=f"{arch}, {source.name}"):
            out.print(f"picture {path}")
    if args.json:
        more = {"arch": arch, "upright": upright, "table": table, "footprints": footprints}
        _resume.save(args.json, settings, results + others, **more, seconds=seconds)
    return 0


def _angles(text):
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ValueError(f"Expected --angles as degrees such as 30,45; got {text!r}") from error


def _model_path(given, arch):
    from pathlib import Path

    if given:
        return given
    # The models lie in the repository, not in the wheel: beside this package, or where we stand.
    for root in (Path(__file__).resolve().parents[2], Path.cwd()):
        path = root / "examples" / "models" / f"{arch}.h5"
        if path.exists():
            return path
    raise ValueError(
        f"Expected a pre-trained {arch} in examples/models, got none: make it with "
        f"examples/pretrain_tiny_cnn.py --arch {arch} and give it with --model"
    )


def _print(out, table, rows, angles, footprints, args, source):
    from rich.table import Table

    from tflm_train.priot._reproduce import BEFORE, PAPER_BYTES

    columns = ["method"]
    for angle in angles:
        columns += [f"{angle}\N{DEGREE SIGN} best", "last", "noise", "paper"]
    which = "validation images" if args.validation else f"test images of {source.name}"
    view = Table(*columns, "device bytes", "paper", title=f"accuracy in %, {which}")
    before = ["before"]
    for angle in angles:
        value = next(c["before"] for c in table if c["angle"] == angle)
        paper = BEFORE.get(angle) if args.dataset == "mnist" else None
        before += [f"{value:.2f}", "", "", f"{paper:.2f}" if paper else ""]
    view.add_row(*before, "", "")
    for row in rows:
        cells = [row.name]
        for angle in angles:
            cell = next(c for c in table if c["row"] == row.name and c["angle"] == angle)
            cells.append(f"{cell['best_mean']:.2f} \N{PLUS-MINUS SIGN} {cell['best_std']:.2f}")
            collapsed = f" ({cell['collapsed']} warned)" if cell["collapsed"] else ""
            cells.append(
                f"{cell['last_mean']:.2f} \N{PLUS-MINUS SIGN} {cell['last_std']:.2f}{collapsed}"
            )
            cells.append(f"{cell['epoch_noise']:.2f}")
            paper = cell["paper"] if args.dataset == "mnist" else None
            cells.append(f"{paper:.2f}" if paper else "")
        paper_bytes = PAPER_BYTES.get(row.model) if args.dataset == "mnist" else None
        device = "" if row.options.get("dynamic") else f"{footprints[row.model]['total']:,}"
        view.add_row(*cells, device, f"{paper_bytes:,}" if paper_bytes and device else "")
    # A pipe has no width of its own; a table broken into pieces helps nobody.
    out.print(view, width=None if out.is_terminal else 150)
