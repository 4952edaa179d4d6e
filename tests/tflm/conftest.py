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
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            machine = dict(getattr(report, "user_properties", [])).get("machine")
            if machine and report.when == "call":
                counts[machine][outcome] += 1
    for machine, found in counts.items():
        text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items()))
        terminalreporter.write_line(f"on {machine}: {text}")
