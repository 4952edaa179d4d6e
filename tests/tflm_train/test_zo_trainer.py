import math
from pathlib import Path

import numpy as np
import pytest

from converters.errors import CheckpointError, DataError, TrainingError
from tflm_train import Interpreter, fit
from tflm_train.zo import ReplayLog, ZoTrainer, qscheduler, replay


@pytest.fixture
def batch(mnist_int8, rotated):
    (x, y), _ = rotated
    return x[:64], y[:64]


def trained(raw, batch, *, engine="native", steps=6, **options):
    trainer = ZoTrainer(Interpreter(raw, engine=engine), **{"q": 4, **options})
    data = trainer.prepare(batch[0])
    y = trainer.check_targets(batch[1])
    losses = [trainer.train_batch(data, y)["loss"] for _ in range(steps)]
    return trainer, losses


@pytest.mark.parametrize("estimator", ["one_sided", "leave_one_out", "two_sided"])
@pytest.mark.parametrize("update", ["stochastic", "int16_shadow", "float_shadow"])
def test_the_loss_of_a_repeated_batch_falls(mnist_int8, batch, estimator, update):
    trainer, losses = trained(
        mnist_int8, batch, steps=60, q=8, lr=0.3, estimator=estimator, update=update
    )
    assert np.mean(losses[-5:]) < 0.75 * np.mean(losses[:5])


def test_raw_learning_rate_falls_too(mnist_int8, batch):
    _, losses = trained(mnist_int8, batch, steps=60, q=8, lr=30.0, normalize="raw")
    assert np.mean(losses[-5:]) < 0.75 * np.mean(losses[:5])


def test_native_and_interpreted_steps_are_the_same_bits(mnist_int8, batch):
    # The generic path perturbs, runs and restores tensor by tensor; the native one does not.
    pytest.importorskip("tflite_micro", reason="the tflite-micro wheel is not installed")
    for estimator in ("one_sided", "leave_one_out", "two_sided"):
        fast, a = trained(mnist_int8, batch, engine="native", steps=3, estimator=estimator)
        slow, b = trained(mnist_int8, batch, engine="tflm", steps=3, estimator=estimator)
        assert a == b
        assert fast.model_bytes() == slow.model_bytes()


@pytest.mark.parametrize("update", ["stochastic", "int16_shadow", "float_shadow"])
@pytest.mark.parametrize("estimator", ["one_sided", "leave_one_out", "two_sided"])
@pytest.mark.parametrize("normalize", ["rms", "raw"])
def test_steps_in_the_engine_are_those_made_one_by_one(
    mnist_int8, batch, update, estimator, normalize
):
    options = {
        "q": 3,
        "update": update,
        "estimator": estimator,
        "normalize": normalize,
        "lr": 0.5 if normalize == "rms" else 20.0,
        "decay": "cosine",
        "total_steps": 7,
    }
    indices = np.arange(50)[::-1]
    trainers = [ZoTrainer(Interpreter(mnist_int8), **options) for _ in range(2)]
    data = trainers[0].prepare(batch[0])
    y = trainers[0].check_targets(batch[1])
    chunk = trainers[0].train_chunk(data, y, indices, 16)
    for begin, row in zip(range(0, 50, 16), chunk, strict=True):
        part = indices[begin : begin + 16]
        assert trainers[1].train_batch([array[part] for array in data], y[part]) == row
    a, b = (trainer.state_dict() for trainer in trainers)
    assert sorted(a) == sorted(b)
    for name in a:
        assert np.array_equal(a[name], b[name]), name


@pytest.mark.parametrize("update", ["stochastic", "int16_shadow", "float_shadow"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_replaying_the_log_rebuilds_the_weights_bit_for_bit(
    mnist_int8, batch, update, momentum, tmp_path
):
    trainer, _ = trained(mnist_int8, batch, steps=12, update=update, momentum=momentum, seed=9)
    trainer.log.save(tmp_path / "run.zolog")
    again = Interpreter(mnist_int8)
    replay(again, ReplayLog.load(tmp_path / "run.zolog"))
    assert again.to_bytes() == trainer.model_bytes()


def test_replaying_on_another_model_is_refused(mnist_int8, batch):
    trainer, _ = trained(mnist_int8, batch, steps=2)
    with pytest.raises(CheckpointError, match="the run started from"):
        replay(Interpreter(trainer.model_bytes()), trainer.log)


def test_a_damaged_log_is_refused(tmp_path):
    (tmp_path / "x.zolog").write_bytes(b"PK\x03\x04 not a log")
    with pytest.raises(CheckpointError, match="Expected a replay log"):
        ReplayLog.load(tmp_path / "x.zolog")


def test_weights_are_restored_exactly_after_measuring(mnist_int8, batch):
    trainer = ZoTrainer(Interpreter(mnist_int8, engine="litert"), q=8)
    before = trainer._weights.read()
    data, y = trainer.prepare(batch[0]), trainer.check_targets(batch[1])
    trainer._losses(data, y, 8)
    for a, b in zip(before, trainer._weights.read(), strict=True):
        assert np.array_equal(a, b)


def test_weights_stay_within_their_limit(mnist_int8, batch):
    trainer, _ = trained(mnist_int8, batch, steps=20, lr=60.0)
    assert np.abs(trainer._weights.read()[0].astype(int)).max() <= 126
    assert trainer.statistics()["saturated"] > 0


def test_weights_without_room_are_refused(mnist_int8):
    interpreter = Interpreter(mnist_int8)
    interpreter.set_weights("logits", np.full((10, 128), 127, np.int8))
    with pytest.raises(TrainingError, match="at most 126.*got 127"):
        ZoTrainer(interpreter)


def test_a_nan_loss_leaves_the_weights_before_its_step(mnist_int8, batch):
    calls = []

    def loss(logits, y):
        calls.append(0)
        # Step 3 of 5 forwards each: its third direction fails.
        return math.nan if len(calls) == 3 * 5 + 3 else float(np.square(logits).mean())

    trainer = ZoTrainer(Interpreter(mnist_int8), q=4, loss=loss)
    data = trainer.prepare(batch[0])
    for _ in range(3):
        trainer.train_batch(data, batch[1])
    before = trainer._weights.read()
    with pytest.raises(TrainingError, match="step 3: .*finite loss, got nan.*before this step"):
        trainer.train_batch(data, batch[1])
    assert np.array_equal(trainer._weights.read()[0], before[0])


def test_a_constant_loss_changes_nothing_and_is_reported(mnist_int8, batch, caplog):
    trainer = ZoTrainer(Interpreter(mnist_int8), q=2, loss=lambda logits, y: 1.0)
    data = trainer.prepare(batch[0][:2])
    before = trainer._weights.read()[0]
    for _ in range(50):
        trainer.train_batch(data, batch[1][:2])
    assert np.array_equal(trainer._weights.read()[0], before)
    assert "the loss did not change under any perturbation for 50 steps" in caplog.text


def test_a_single_weight_walks_to_the_minimum_of_a_parabola():
    # Loss (w - 10)^2 from w = 50, by the kernels themselves.
    from tflm_train import _native

    w, v = np.array([50], np.int8), 0
    for step in range(30):
        z = np.zeros(1, np.int32)
        _native.zo_perturb(z, 1, step, 0, 0, 1)
        base, plus = (int(w[0]) - 10) ** 2, (int(w[0]) + int(z[0]) - 10) ** 2
        d = _native.zo_differences(0, base, np.array([plus], np.int64), None)
        a, v = _native.zo_coefficients_rms(d, 3 << 16, v)
        if step == 0:
            # By hand: z = +1 gives 41^2 - 40^2 = 81, z = -1 gives 39^2 - 40^2 = -79; d / rms is the
            # sign of d, so a = 3 steps * sign(d) and w falls by 3 either way.
            assert d[0] == (81 if z[0] == 1 else -79)
            assert int(a[0]) * int(z[0]) == 3 << 16
        _native.zo_update(w, None, None, a, 1, step, 0, 1, 126, 0, 0)
        if step == 0:
            assert w[0] == 47
    assert abs(int(w[0]) - 10) <= 5


def test_q_grows_with_the_scheduler_and_is_resumed(mnist_int8, rotated):
    (x, y), _ = rotated
    scheduler = qscheduler(q_init=2, q_max=8, patience=1, tau=10.0)
    trainer = ZoTrainer(Interpreter(mnist_int8), scheduler=scheduler)
    result = fit(trainer, (x[:64], y[:64]), (x[64:96], y[64:96]), epochs=4, batch_size=32)
    assert [row["q"] for row in result.history] == [2, 2, 4, 8]
    assert trainer.q == 8


def test_biases_are_trained_in_steps_of_the_output(mnist_cnn_bias, batch):
    trainer, losses = trained(mnist_cnn_bias, batch, steps=60, q=16, lr=0.5)
    assert trainer._weights.slots[0].unit > 1
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


@pytest.fixture(scope="session")
def mnist_cnn_bias(digits):
    import tflm_train

    return tflm_train.convert(
        str(Path(__file__).parents[2] / "examples/models/mnist_cnn.h5"),
        calibration=digits[0].x[:64],
        normalization={"scale": 1 / 255, "offset": 0.0},
        trainable="bias:features,logits",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"q": 0}, "q of 1 to 128, got 0"),
        ({"q": 1, "estimator": "leave_one_out"}, "q of 2 to 128, got 1"),
        ({"lr": 0.0}, "lr above 0, got 0.0"),
        ({"lr": math.nan}, "lr above 0, got nan"),
        ({"lr": 1e6}, "at most 256"),
        ({"momentum": 1.0}, "momentum of 0.0 to"),
        ({"mu": 0}, "mu of 1 to 63, got 0"),
        ({"update": "nearest"}, "got 'nearest'"),
        ({"estimator": "central"}, "got 'central'"),
        ({"normalize": "adam"}, "got 'adam'"),
        ({"decay": "cosine"}, "total_steps"),
        ({"seed": -1}, "seed of 0"),
        ({"loss": "hinge"}, "got 'hinge'"),
        ({"scheduler": 8}, "Expected a qscheduler"),
    ],
)
def test_options_out_of_range_are_refused(mnist_int8, options, message):
    with pytest.raises(ValueError, match=message):
        ZoTrainer(Interpreter(mnist_int8), **options)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([0, 10]), "0 to 9 .*got 0 to 10"),
        (np.array([-1, 0]), "got -1 to 0"),
        (np.array([0.5, 1.0]), "integer labels"),
        (np.zeros((2, 10), int), "integer labels"),
    ],
)
def test_labels_that_do_not_fit_are_refused(mnist_int8, y, message):
    with pytest.raises(DataError, match=message):
        ZoTrainer(Interpreter(mnist_int8)).check_targets(y)
