"""Histories as pictures and JSON."""

import io
import json

import numpy as np

from converters.atomic import write_bytes_atomically


def write_history(history, path):
    """The epochs as a JSON list."""
    write_bytes_atomically(path, json.dumps(history, indent=1).encode())


def plot_history(history, path, *, title="", reference=None):
    """A PNG of accuracy and loss over the epochs, with q where there is one.

    Args:
      history: rows as `fit` returns them.
      path: of the picture.
      title: above it.
      reference: accuracies to mark with a dashed line, `{label: value}`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    epochs = [row["epoch"] for row in history]
    _lines(left, epochs, history, {"train_accuracy": "training", "validation_accuracy": "held out"})
    for label, value in (reference or {}).items():
        left.axhline(value, linestyle="--", color="grey")
        left.annotate(label, (epochs[0], value), va="bottom", color="grey")
    left.set(xlabel="epoch", ylabel="accuracy", title=title)
    _lines(right, epochs, history, {"train_loss": "training", "validation_loss": "held out"})
    right.set(xlabel="epoch", ylabel="loss")
    if any(row.get("q") for row in history):
        twin = right.twinx()
        twin.step(epochs, [row["q"] for row in history], where="mid", color="tab:green", label="q")
        twin.set_ylabel("q (directions a step)", color="tab:green")
        twin.set_ylim(0, 1.15 * max(row["q"] for row in history))
    for axes in (left, right):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="lower left" if axes is right else "lower right")
    save_figure(figure, path)


def save_figure(figure, path):
    """Write a matplotlib figure as PNG, atomically."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    write_bytes_atomically(path, buffer.getvalue())


def _lines(axes, epochs, history, names):
    for key, label in names.items():
        values = [np.nan if row.get(key) is None else row[key] for row in history]
        if not np.all(np.isnan(values)):
            axes.plot(epochs, values, marker=".", label=label)
