import pytest

from tflm_train import early_stopping


def run(stopping, rows):
    state = stopping.init()
    for number, (train, validation) in enumerate(rows):
        state, reason = stopping.update(train, validation, state)
        if reason:
            return number, reason
    return None, None


def test_thirty_stagnant_epochs_stop_by_default():
    number, reason = run(early_stopping(), [(1.0, 1.0)] * 40)
    assert number == 30  # the first epoch is the best, 30 more without a better one
    assert "30 epochs" in reason


def test_an_improvement_starts_the_count_again():
    assert run(early_stopping(patience=2), [(1, 1), (1, 1), (1, 0.5), (1, 0.5)]) == (None, None)


def test_a_growing_gap_is_overfitting():
    rows = [(1.0 - 0.1 * i, 1.0 + 0.1 * i) for i in range(6)]
    number, reason = run(early_stopping(overfit_patience=3), rows)
    assert number == 3
    assert reason.startswith("overfitting")


def test_validation_that_grows_with_training_is_not_overfitting():
    rows = [(1.0 + 0.1 * i, 1.0 + 0.1 * i) for i in range(8)]
    assert run(early_stopping(overfit_patience=2), rows) == (None, None)


@pytest.mark.parametrize("options", [{"patience": 0}, {"tau": -1.0}, {"overfit_patience": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="Expected"):
        early_stopping(**options)
