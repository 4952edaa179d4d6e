import json

import numpy as np
import pytest

from converters.errors import CheckpointError, DataError
from tflm_train import Interpreter, early_stopping, fit
from tflm_train._loop import epoch_order
from tflm_train.data import flips_and_crops
from tflm_train.zo import ZoTrainer, qscheduler


class Stop(Exception):
    """Stands for the power that fails."""


def trainer(raw, **options):
    scheduler = qscheduler(q_init=2, q_max=16, patience=1, tau=0.05)
    options = {"decay": "cosine", "total_steps": 40, "seed": 3, **options}
    return ZoTrainer(Interpreter(raw), scheduler=scheduler, **options)


@pytest.fixture
def data(rotated):
    (x, y), _ = rotated
    return (x[:200], y[:200]), (x[200:280], y[200:280])


@pytest.mark.parametrize("stop_at", [1, 5, 9, 14, 22])
@pytest.mark.parametrize("update", ["stochastic", "int16_shadow", "float_shadow"])
def test_an_interrupted_run_continues_to_the_same_bytes(
    mnist_int8, data, tmp_path, stop_at, update
):
    whole = trainer(mnist_int8, update=update)
    expected = fit(whole, *data, epochs=4, batch_size=32)
    calls = []

    def fail(*_):
        calls.append(0)
        if len(calls) == stop_at:
            raise Stop

    path = tmp_path / "run.ckpt"
    # Saves after every chunk, stops without a word, and starts again in new objects.
    options = {"epochs": 4, "batch_size": 32, "checkpoint": path, "checkpoint_seconds": 0.0}
    finished = False
    while not finished:
        again = trainer(mnist_int8, update=update)
        try:
            result = fit(again, *data, **options, on_batch=fail)
            finished = True
        except Stop:
            pass
    assert again.model_bytes() == whole.model_bytes()
    assert result.best_model == expected.best_model
    for a, b in zip(again.state_dict().values(), whole.state_dict().values(), strict=True):
        assert np.array_equal(a, b)
    for a, b in zip(result.history, expected.history, strict=True):
        assert {k: v for k, v in a.items() if k != "seconds"} == {
            k: v for k, v in b.items() if k != "seconds"
        }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 16}, "batch_size 32 .now 16"),
        ({"seed": 5}, "shuffle_seed 0 .now 5"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(mnist_int8, data, tmp_path, change, message):
    path = tmp_path / "run.ckpt"
    fit(trainer(mnist_int8), *data, epochs=1, batch_size=32, checkpoint=path)
    with pytest.raises(CheckpointError, match=message):
        fit(trainer(mnist_int8), *data, epochs=1, checkpoint=path, **{"batch_size": 32, **change})


def test_a_checkpoint_of_other_options_or_data_is_refused(mnist_int8, data, tmp_path):
    path = tmp_path / "run.ckpt"
    fit(trainer(mnist_int8), *data, epochs=1, batch_size=32, checkpoint=path)
    with pytest.raises(CheckpointError, match="mu 1 .now 2"):
        fit(trainer(mnist_int8, mu=2), *data, epochs=1, batch_size=32, checkpoint=path)
    (x, y), held_out = data
    with pytest.raises(CheckpointError, match="data_crc32"):
        fit(trainer(mnist_int8), (255 - x, y), held_out, epochs=1, batch_size=32, checkpoint=path)


@pytest.mark.parametrize("keep", [0, 10, 1000])
def test_a_torn_checkpoint_is_refused_not_believed(mnist_int8, data, tmp_path, keep):
    path = tmp_path / "run.ckpt"
    fit(trainer(mnist_int8), *data, epochs=1, batch_size=32, checkpoint=path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="Expected a checkpoint"):
        fit(trainer(mnist_int8), *data, epochs=1, batch_size=32, checkpoint=path)


def test_a_newer_checkpoint_is_refused(mnist_int8, data, tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    monkeypatch.setattr("tflm_train._checkpoint.FORMAT_VERSION", 2)
    fit(trainer(mnist_int8), *data, epochs=1, batch_size=32, checkpoint=path)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="version 1, got 2"):
        fit(trainer(mnist_int8), *data, epochs=1, batch_size=32, checkpoint=path)


def test_a_failed_save_keeps_the_checkpoint_before_it(mnist_int8, data, tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    fit(trainer(mnist_int8), *data, epochs=1, batch_size=32, checkpoint=path)
    before = path.read_bytes()

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("converters.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        fit(trainer(mnist_int8), *data, epochs=2, batch_size=32, checkpoint=path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.ckpt"]


def test_each_epoch_sees_every_sample_once_in_another_order():
    orders = [epoch_order(100, 0, epoch) for epoch in range(3)]
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert not np.array_equal(orders[0], orders[1])
    assert not np.array_equal(epoch_order(100, 1, 0), orders[0])


def test_training_stops_when_nothing_improves(mnist_int8, data):
    result = fit(
        trainer(mnist_int8, lr=1e-4, momentum=0.0),
        *data,
        epochs=10,
        batch_size=64,
        stopping=early_stopping(patience=2, tau=10.0),
    )
    assert len(result.history) == 3
    assert result.stopped == "no better validation loss for 2 epochs"


def test_the_best_epoch_is_the_one_with_the_best_validation_accuracy(mnist_int8, data):
    result = fit(trainer(mnist_int8, lr=20.0), *data, epochs=4, batch_size=32)
    accuracies = [row["validation_accuracy"] for row in result.history]
    assert result.best_epoch == 1 + int(np.argmax(accuracies))
    best = Interpreter(result.best_model)
    logits = best.logits_int8(data[1][0])
    assert np.mean(logits.argmax(1) == data[1][1]) == max(accuracies)


def test_the_history_is_json(mnist_int8, data):
    result = fit(trainer(mnist_int8), *data, epochs=1, batch_size=64)
    assert json.loads(json.dumps(result.history))[0]["epoch"] == 1


def test_augmentation_is_repeated_by_a_resumed_run_and_changes_with_the_epoch(digits):
    x = digits[0].x[:6]
    augment = flips_and_crops(pad=2, seed=1)
    a, b = augment(x, np.arange(6), 3), augment(x[3:], np.arange(3, 6), 3)
    assert np.array_equal(a[3:], b)  # by sample, not by place in the batch
    assert not np.array_equal(a, augment(x, np.arange(6), 4))
    assert np.array_equal(flips_and_crops(flip=False, pad=0)(x, np.arange(6), 0), x)


def test_training_with_augmentation_runs(mnist_int8, data):
    augment = flips_and_crops(flip=False, pad=1)
    result = fit(trainer(mnist_int8), *data, epochs=2, batch_size=64, augment=augment)
    assert len(result.history) == 2


@pytest.mark.parametrize(("x", "y"), [(0, 0), (5, 4)])
def test_samples_without_labels_are_refused(mnist_int8, data, x, y):
    (all_x, all_y), _ = data
    with pytest.raises(DataError, match="as many samples as labels"):
        fit(trainer(mnist_int8), (all_x[:x], all_y[:y]), epochs=1)
