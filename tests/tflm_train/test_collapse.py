"""The collapse detector tells a slow run from a collapsed one."""

import numpy as np
import pytest

from tflm_train.priot._collapse import CollapseDetector

LABELS = np.arange(1000) % 10
QUIET = {
    "outputs_saturated": 0, "outputs_seen": 100, "weights_at_limit": 0, "edges": 100, "scored": 100,
    "updates_saturated": 0, "updates": 100, "errors_saturated": 0, "errors_seen": 100, "pruned": 0,
}  # fmt: skip


def epoch(detector, *, right, for_class_0=100):
    """The verdict on an epoch with so many of 1,000 samples right and taken for class 0."""
    rest = np.full(9, (1000 - for_class_0) // 9)
    predicted = np.array([1000 - rest.sum(), *rest])
    detector.add({"predicted": predicted, "correct": right}, LABELS)
    return detector.verdict({"conv1": QUIET}, 10)


def test_a_hard_task_that_begins_slowly_is_no_collapse():
    detector = CollapseDetector()
    assert [epoch(detector, right=right, for_class_0=170) for right in (190, 240, 310)] == [
        None
    ] * 3


def test_a_run_that_falls_back_towards_chance_is_one():
    detector = CollapseDetector()
    assert epoch(detector, right=450) is None
    assert "training collapsed" in epoch(detector, right=160)


@pytest.mark.parametrize(("right", "for_class_0"), [(100, 1000), (190, 440), (104, 100)])
def test_one_class_for_everything_or_chance_is_one_from_the_start(right, for_class_0):
    verdict = epoch(CollapseDetector(), right=right, for_class_0=for_class_0)
    assert verdict.startswith("training collapsed")
    assert "class 0" in verdict


def test_an_accurate_run_is_none_whatever_it_was_before():
    detector = CollapseDetector()
    assert epoch(detector, right=900) is None
    assert epoch(detector, right=700) is None
