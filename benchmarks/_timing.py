"""Timing on a machine that others use too: interleaved runs, medians, ratios from one run."""

import time

import numpy as np


def interleaved(calls, *, rounds, seconds=60.0):
    """Median seconds of each call, all run in turn so that a busy moment hits every one.

    Args:
      calls: {name: function without arguments}.
      rounds: runs of each, fewer when the time is up.
      seconds: time budget for all of them.

    Returns:
      {name: {"median": seconds, "fastest": seconds, "runs": count}}.
    """
    for call in calls.values():
        call()
    times = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    for done in range(rounds):
        if done >= 3 and time.perf_counter() > end:
            break
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
    return {
        name: {"median": float(np.median(t)), "fastest": min(t), "runs": len(t)}
        for name, t in times.items()
    }


def table(title, rows, header):
    """Print rows of text in columns."""
    rows = [header, *rows]
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(header))]
    print(f"\n{title}")
    for row in rows:
        cells = [str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in
                 enumerate(zip(row, widths, strict=True))]  # fmt: skip
        print("  " + "  ".join(cells))


def milliseconds(seconds):
    """`0.123 ms`."""
    return f"{seconds * 1e3:.3f} ms"
