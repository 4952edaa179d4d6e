"""Pictures of the transfer experiment: accuracy over epochs, scores and pruned edges."""

import numpy as np


def draw(results, rows, folder, *, title):
    """Write `history.png` and `scores.png` into `folder`; returns their paths."""
    from matplotlib.figure import Figure

    paths = [folder / "history.png"]
    angles = sorted({r["angle"] for r in results})
    figure = Figure(figsize=(6.5 * len(angles), 5), layout="constrained")
    axes = figure.subplots(1, len(angles), squeeze=False, sharey=True)[0]
    for axis, angle in zip(axes, angles, strict=True):
        _history(axis, [r for r in results if r["angle"] == angle], rows)
        axis.set_title(f"{title}: {angle}\N{DEGREE SIGN}")
    axes[0].set_ylabel("test accuracy, %")
    axes[-1].legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(paths[0], dpi=120)
    shown = _shown(results, rows)
    if shown is not None:
        paths.append(folder / "scores.png")
        figure = Figure(figsize=(12, 7), layout="constrained")
        _scores(figure, shown)
        figure.suptitle(f"{title}: {rows[shown['row']].name}, {shown['angle']}\N{DEGREE SIGN}")
        figure.savefig(paths[1], dpi=120)
    return paths


def _history(axis, results, rows):
    for number, row in enumerate(rows):
        runs = np.array([r["test"] for r in results if r["row"] == number])
        if not len(runs):
            continue
        epochs = np.arange(1, runs.shape[1] + 1)
        style = "-" if number < 10 else "--"
        (line,) = axis.plot(epochs, runs.mean(0), style, label=row.name)
        axis.fill_between(epochs, runs.min(0), runs.max(0), color=line.get_color(), alpha=0.1)
    axis.set_xlabel("epoch")
    axis.grid(alpha=0.3)


def _shown(results, rows):
    """The run whose scores are drawn: plain PRIOT if it is there."""
    found = [r for r in results if r["scores"]]
    found.sort(key=lambda r: (rows[r["row"]].name != "PRIOT", -r["angle"], r["row"]))
    return found[0] if found else None


def _scores(figure, run):
    layers = run["scores"]
    axes = figure.subplots(2, len(layers), squeeze=False)
    centres = np.arange(-128, 128, 4) + 2
    for axis, (name, found) in zip(axes[0], layers.items(), strict=True):
        pruned = centres < found["threshold"]
        counts = np.array(found["scores"])
        axis.bar(centres[~pruned], counts[~pruned], width=4, label="kept")
        axis.bar(centres[pruned], counts[pruned], width=4, label="pruned")
        axis.axvline(found["threshold"], color="black", lw=0.8)
        axis.set_title(f"{name}: {100 * run['pruned'][-1][name]:.1f} % pruned")
        axis.set_xlabel("score")
    magnitude = np.arange(0, 128, 4) + 2
    for axis, found in zip(axes[1], layers.values(), strict=True):
        kept, pruned = np.array(found["kept"]), np.array(found["pruned"])
        share = np.divide(pruned, np.maximum(kept + pruned, 1)) * 100
        axis.plot(magnitude, share)
        axis.set_xlabel("|weight|")
        axis.set_ylabel("pruned, %")
    axes[0][0].legend(fontsize="small")
