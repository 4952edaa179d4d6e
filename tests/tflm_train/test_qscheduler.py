import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflm_train.zo import qscheduler


def run(scheduler, metrics):
    state = scheduler.init()
    qs = []
    for metric in metrics:
        state = scheduler.update(metric, state)
        qs.append(state.q)
    return qs, state


def test_q_doubles_after_patience_epochs_without_improvement():
    qs, state = run(qscheduler(q_init=4, patience=2, tau=0.0), [1.0, 1.0, 1.0, 1.0, 1.0])
    assert qs == [4, 4, 8, 8, 16]
    assert state.best == 1.0


def test_an_improvement_clears_the_count():
    qs, _ = run(qscheduler(q_init=4, patience=2, tau=0.0), [1.0, 1.0, 0.9, 0.9, 0.9])
    assert qs == [4, 4, 4, 4, 8]


def test_a_change_smaller_than_tau_is_no_improvement():
    qs, state = run(qscheduler(q_init=4, patience=1, tau=0.1), [1.0, 0.95])
    assert qs == [4, 8]
    assert state.best == 1.0


def test_accuracy_grows_instead_of_falling():
    qs, _ = run(qscheduler(q_init=4, patience=1, tau=0.0, metric="accuracy"), [0.5, 0.6, 0.6])
    assert qs == [4, 4, 8]


def test_q_stays_at_its_maximum():
    qs, _ = run(qscheduler(q_init=48, q_max=64, patience=1), [1.0, 1.0, 1.0, 1.0])
    assert qs == [48, 64, 64, 64]


def test_q_takes_only_the_given_values():
    scheduler = qscheduler(q_init=4, q_max=64, patience=1, alpha=3.0, values=[4, 8, 16, 64])
    qs, _ = run(scheduler, [1.0, 1.0, 1.0, 1.0])
    assert qs == [4, 8, 16, 16]  # 12 -> 8, 24 -> 16, 48 -> 16: the next value is out of reach


def test_the_metric_is_smoothed():
    scheduler = qscheduler(q_init=4, patience=1, tau=0.0, smoothing=0.5)
    _, state = run(scheduler, [1.0, 0.0])
    assert state.smoothed == 0.5
    assert state.best == 0.5


@given(st.lists(st.floats(0, 10), max_size=60), st.integers(1, 5))
def test_q_never_falls_and_stays_in_range(metrics, patience):
    qs, _ = run(qscheduler(q_init=2, q_max=32, patience=patience), metrics)
    assert all(a <= b for a, b in zip(qs, qs[1:], strict=False))
    assert all(2 <= q <= 32 for q in qs)


def test_the_state_survives_a_round_trip_through_numbers():
    scheduler = qscheduler(q_init=4, patience=2)
    _, state = run(scheduler, [1.0, 1.0])
    again = type(state)(*[type(old)(v) for old, v in zip(state, np.array(state), strict=True)])
    assert scheduler.update(1.0, again) == scheduler.update(1.0, state)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"q_init": 0}, "0"),
        ({"q_init": 8, "q_max": 4}, "4"),
        ({"q_max": 500}, "500"),
        ({"alpha": 1.0}, "1.0"),
        ({"alpha": math.nan}, "nan"),
        ({"patience": 0}, "0"),
        ({"tau": -0.5}, "-0.5"),
        ({"metric": "f1"}, "f1"),
        ({"smoothing": 1.0}, "1.0"),
        ({"values": [8, 4]}, r"\(8, 4\)"),
        ({"values": [8, 16]}, r"\(8, 16\)"),
    ],
)
def test_an_option_out_of_range_is_refused_with_its_value(options, shown):
    with pytest.raises(ValueError, match=f"Expected .*got {shown}|got .*{shown}"):
        qscheduler(**options)


def test_a_metric_that_is_not_finite_is_refused():
    scheduler = qscheduler()
    with pytest.raises(ValueError, match="finite loss, got nan"):
        scheduler.update(math.nan, scheduler.init())
