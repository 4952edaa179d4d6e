"""Pictures of the transfer experiment: accuracy over epochs, scores and pruned edges."""

import numpy as np


def draw(results, rows, folder, *, title):
    """Write `history.png` and `scores.png` into `folder`; returns their paths."""
    from matplotlib.figure import Figure

    paths = [folder / "history.png"]
    angles = sorted({r["angle"] for r in results})
    figure = Figure(figsize=(6.5 * len(angles), 9), layout="constrained")
    axes = figure.subplots(2, len(angles), squeeze=False, sharex=True, sharey="row")
    # Below the whole, the part where most runs lie: one that collapses flattens all others.
    low = np.quantile([r["test"] for r in results], 0.25)
    for column, angle in zip(axes.T, angles, strict=True):
        for axis in column:
            _history(axis, [r for r in results if r["angle"] == angle], rows)
        column[0].set_title(f"{title}: {angle}\N{DEGREE SIGN}")
        column[1].set_ylim(low, min(100, 1 + max(max(r["test"]) for r in results)))
        column[1].set_xlabel("epoch")
    for axis in axes[:, 0]:
        axis.set_ylabel("test accuracy, %")
    axes[0, -1].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
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
        edges = kept + pruned
        share = np.divide(pruned, np.maximum(edges, 1)) * 100
        # A share of a handful of edges is noise.
        axis.plot(magnitude, np.where(edges < 10, np.nan, share))
        axis.set_xlabel("|weight|")
        axis.set_ylabel("pruned, %")
    axes[0][0].legend(fontsize="small")
