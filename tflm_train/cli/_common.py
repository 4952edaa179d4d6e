"""Arguments and output that several commands share."""

import contextlib
import sys

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tflm_train._engines import ENGINE_NAMES

UNCALIBRATED = (
    "this model is UNCALIBRATED: its scales come from synthetic noise, so its accuracy means "
    "little; convert it again with --calibration"
)


def console():
    """Where commands write; made on use, so that tests can redirect the streams.

    A file or a pipe has no width of its own: wide enough for the tables not to wrap.
    """
    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


def add_data_arguments(parser, *, required=True):
    """`--data` with its companions."""
    parser.add_argument(
        "--data",
        required=required,
        metavar="DATA",
        help=".npz with x and y, .csv, folder of images with a sub-folder per class, or a "
        "built-in: digits, mnist, fashion_mnist, cifar10",
    )
    parser.add_argument(
        "--rotate",
        type=float,
        default=0.0,
        metavar="DEGREES",
        help="rotate images first, to simulate a changed world (default 0)",
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="use N samples, drawn evenly (default all)"
    )


def add_engine_arguments(parser):
    """`--engine` and `--prefix-engine`."""
    parser.add_argument(
        "--engine",
        default="native",
        choices=[name for name in ENGINE_NAMES if name != "xnnpack"],
        help="what runs the model (default native: fast and bit-exact with TFLM)",
    )
    parser.add_argument(
        "--prefix-engine",
        default=None,
        choices=list(ENGINE_NAMES),
        help="what runs the frozen layers (default: the same); xnnpack is faster on big models "
        "and not bit-exact with the device",
    )


def load_data(args, part):
    """The data set that `--data`, `--rotate` and `--limit` name."""
    import numpy as np

    from tflm_train.data import load_dataset, rotate

    dataset = load_dataset(args.data, part=part)
    if args.limit is not None and args.limit < len(dataset):
        if args.limit < 1:
            raise ValueError(f"Expected --limit of 1 or more, got {args.limit}")
        dataset = dataset.take(np.linspace(0, len(dataset) - 1, args.limit).astype(int))
    if args.rotate:
        import dataclasses

        dataset = dataclasses.replace(dataset, x=rotate(dataset.x, args.rotate))
    return dataset


def warn_uncalibrated(out, info):
    """Repeat convert's warning wherever the model is used."""
    if info is not None and not info.calibrated:
        out.print(f"[bold red]warning:[/] {UNCALIBRATED}")


@contextlib.contextmanager
def progress_bar(out, description):
    """A bar with an `update(done, total)` function; silent when the output is not a terminal."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    )
    with bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
