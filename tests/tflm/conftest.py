"""Makes the helpers beside the tests importable; counts the tests of each machine."""

import collections
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def machine_of_the_test(request, record_property):
    """Notes the machine that a test names."""
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("machine")
    if name:
        record_property("machine", name)


def pytest_terminal_summary(terminalreporter):
    """`make tflm-test` ends with the numbers that docs/tflm.md quotes."""
    counts = collections.defaultdict(collections.Counter)
    figures = collections.defaultdict(dict)
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            properties = dict(getattr(report, "user_properties", []))
            machine = properties.pop("machine", None)
            if not machine or report.when != "call":
                continue
            counts[machine][outcome] += 1
            for name, value in properties.items():
                figures[machine][name] = max(value, figures[machine].get(name, 0))
    for machine, found in counts.items():
        text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items()))
        text += "".join(f"; {name} {value} bytes" for name, value in figures[machine].items())
        terminalreporter.write_line(f"on {machine}: {text}")
