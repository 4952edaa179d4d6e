"""Live view of a training run: a line per epoch, a bar within."""

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_COLUMNS = (
    ("train_loss", "loss", "{:.4f}"),
    ("train_accuracy", "acc", "{:.4f}"),
    ("validation_loss", "val loss", "{:.4f}"),
    ("validation_accuracy", "val acc", "{:.4f}"),
    ("q", "q", "{:.0f}"),
    ("lr", "lr", "{:.3f}"),
    ("changed", "changed", "{:.1%}"),
    ("pruned", "pruned", "{:.1%}"),
    ("saturated", "saturated", "{:.2%}"),
)


def epoch_line(row, epochs):
    """One line of text for an epoch's row of the history."""
    parts = [f"epoch {row['epoch']:>3}/{epochs}"]
    for key, label, style in _COLUMNS:
        if row.get(key) is not None:
            parts.append(f"{label} {style.format(row[key])}")
    return "  ".join([*parts, f"{row['seconds']:.1f} s"])


class TrainingView:
    """Callbacks for `fit`: `batch` moves the bar, `epoch` prints a line.

    The bar shows on a terminal only; the lines always, so that a log file reads the same.
    """

    def __init__(self, console, epochs):
        self._console = console
        self._epochs = epochs
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %  loss {task.fields[loss]}  q {task.fields[q]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=1.0, epoch=1, loss="-", q="-")

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *exc):
        self._bar.stop()

    def batch(self, epoch, done, total, last):
        """Progress within an epoch."""
        loss = last.get("loss")
        self._bar.update(
            self._task,
            completed=epoch + done / total,
            total=self._epochs,
            epoch=epoch + 1,
            loss="-" if loss is None else f"{loss:.4f}",
            q=last.get("q", "-"),
        )

    def epoch(self, row):
        """An epoch is over."""
        self._console.print(epoch_line(row, self._epochs), soft_wrap=True)
