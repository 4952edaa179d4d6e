"""Runs one benchmark of this folder by its name.

  python -m benchmarks                            the names
  python -m benchmarks engine --json out.json     a table, and the figures as JSON

From the repository's folder: with the package built in place, or installed as `make` does it
(`.venv/bin/python -m benchmarks ...`).

A benchmark is a module whose `main(argv)` prints its figures and returns them as a dict; its own
options follow its name. A name that starts with an underscore is a helper.
"""

import datetime
import importlib
import json
import os
import pkgutil
import platform
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# A checkout whose native module is not built in place (`make native`) measures the installed
# package: its own sources then come last.
_ROOT = Path(__file__).resolve().parents[1]
if not any((_ROOT / "tflm_train").glob("_native*")):
    sys.path = [p for p in sys.path if Path(p).resolve() != _ROOT] + [str(_ROOT)]


def names():
    """The benchmarks of this folder."""
    folder = str(Path(__file__).parent)
    return sorted(m.name for m in pkgutil.iter_modules([folder]) if not m.name.startswith("_"))


def machine():
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }


def main(argv=None):
    """Dispatch; returns the exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        print("Benchmarks:", ", ".join(names()))
        return 0
    name = argv.pop(0)
    if name not in names():
        print(f"Expected a benchmark ({', '.join(names())}), got {name!r}", file=sys.stderr)
        return 2
    target = None
    if "--json" in argv:
        at = argv.index("--json")
        if at + 1 >= len(argv):
            print("Expected a file after --json", file=sys.stderr)
            return 2
        target = Path(argv[at + 1])
        del argv[at : at + 2]
    figures = importlib.import_module(f"benchmarks.{name}").main(argv)
    if target is not None:
        result = {"benchmark": name, "machine": machine(), "figures": figures}
        target.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
