"""The integer-only trainers on real digits, as a user meets them."""

import logging

import numpy as np
import pytest

from converters.errors import DataError, TrainingError, UnsupportedModelError
from converters.priot_freeze import freeze
from converters.priot_read import read_net
from converters.priot_write import write_net
from tflm_train import Interpreter, fit
from tflm_train.data import rotate
from tflm_train.priot import PriotOptions, PriotTrainer
from tflm_train.priot._memory import footprint
from tflm_train.priot._options import mu_at


def pixels(x):
    return (x >> 1).astype(np.int8)


@pytest.fixture(scope="module")
def models(tiny_cnn_models):
    return tiny_cnn_models


@pytest.fixture(scope="module")
def rotated(digits):
    """((x, y) to train on, (x, y) to test on): 600 and 500 digits at 30 degrees."""
    train, test = digits
    order = np.random.default_rng(0).permutation(len(train))[:600]
    picked = np.random.default_rng(0).permutation(len(test))[:500]
    return (
        (pixels(rotate(train.x[order], 30)), train.y[order]),
        (pixels(rotate(test.x[picked], 30)), test.y[picked]),
    )


def run(trainer, data, epochs=4, **options):
    return fit(trainer, *data, epochs=epochs, batch_size=options.pop("batch_size", 1), **options)


@pytest.mark.parametrize(
    ("model", "options", "least"),
    [
        ("priot", {}, 0.90),
        ("priot", {"masked_backward": False, "rounding_update": "pseudo_stochastic"}, 0.90),
        ("priot", {"method": "edge-popup"}, 0.75),
        ("priot-s", {}, 0.85),
        ("niti", {"mu": 1}, 0.90),
        ("niti", {"method": "niti", "dynamic": True, "mu": 2}, 0.93),
    ],
    ids=["priot", "paper", "edge-popup", "priot-s", "niti", "dynamic"],
)
def test_training_on_rotated_digits_gains_accuracy(models, rotated, model, options, least):
    trainer = PriotTrainer(models[model], epochs=6, **options)
    before = trainer.evaluate(trainer.prepare(rotated[1][0]), rotated[1][1])[1]
    result = run(trainer, rotated, epochs=6)
    best = max(row["validation_accuracy"] for row in result.history)
    assert before < best
    assert best >= least


def test_the_saved_model_continues_where_the_trainer_stood(models, rotated):
    for name in models:
        trainer = PriotTrainer(models[name], epochs=2)
        run(trainer, rotated, epochs=1)
        again = PriotTrainer(trainer.model_bytes(), epochs=2)
        x = trainer.prepare(rotated[1][0])
        np.testing.assert_array_equal(trainer.predict(x), again.predict(x))


@pytest.mark.parametrize("options", [{}, {"average_every": 32}, {"rounding_update": "stochastic"}])
def test_a_resumed_run_gives_the_bits_of_an_unbroken_one(models, rotated, tmp_path, options):
    whole = PriotTrainer(models["priot"], epochs=4, **options)
    run(whole, rotated, epochs=4)
    first = PriotTrainer(models["priot"], epochs=4, **options)
    run(first, rotated, epochs=2, checkpoint=tmp_path / "c")
    second = PriotTrainer(models["priot"], epochs=4, **options)
    result = run(second, rotated, epochs=4, checkpoint=tmp_path / "c")
    assert len(result.history) == 4
    assert whole.model_bytes() == second.model_bytes()
    assert whole.step == second.step == 2400


def test_portable_and_vector_kernels_train_to_the_same_bytes(models, rotated):
    few = (rotated[0][0][:40], rotated[0][1][:40])
    for name in models:
        bytes_of = []
        for portable in (True, False):
            trainer = PriotTrainer(models[name], portable=portable)
            fit(trainer, few, epochs=1, batch_size=1)
            bytes_of.append(trainer.model_bytes())
        assert bytes_of[0] == bytes_of[1]


def test_larger_batches_train_too(models, rotated):
    trainer = PriotTrainer(models["priot"], epochs=4)
    result = run(trainer, rotated, batch_size=8)
    assert result.history[-1]["validation_accuracy"] > 0.85


def test_a_frozen_model_gives_the_masked_models_outputs_in_tflm(models, rotated, digits):
    runtime = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="needs the tflite-micro wheel"
    )
    trainer = PriotTrainer(models["priot"], epochs=1)
    run(trainer, rotated, epochs=1)
    interpreter = runtime.Interpreter.from_bytes(freeze(trainer.model_bytes()))
    x = pixels(digits[1].x[:1000])
    found = np.empty((len(x), 10), np.int8)
    for i, image in enumerate(x):
        interpreter.set_input(image[None], 0)
        interpreter.invoke()
        found[i] = interpreter.get_output(0)[0]
    assert len(x) == 1000
    np.testing.assert_array_equal(found, trainer.predict(trainer.prepare(x)))


def test_the_interpreter_runs_a_masked_model(models, digits):
    trainer, x = PriotTrainer(models["priot"]), digits[1].x[:50]
    interpreter = Interpreter(models["priot"])
    np.testing.assert_array_equal(interpreter.logits_int8(x), trainer.predict(trainer.prepare(x)))


def test_weights_and_scales_never_change_under_priot(models, rotated):
    trainer = PriotTrainer(models["priot"], epochs=2)
    run(trainer, rotated, epochs=1)
    before, after = read_net(models["priot"])[0], read_net(trainer.model_bytes())[0]
    assert before.exponents() == after.exponents()
    for a, b in zip(before.weighted(), after.weighted(), strict=True):
        np.testing.assert_array_equal(a.weights, b.weights)
        assert np.any(a.scores != b.scores)


def test_collapse_is_noticed_and_the_overflow_named(models, rotated, caplog):
    trainer = PriotTrainer(models["niti"], mu=7, mu_schedule="constant", epochs=3)
    with caplog.at_level(logging.WARNING):
        run(trainer, rotated, epochs=3)
    assert "collapsed" in caplog.text
    assert "overflow" in caplog.text or "+-127" in caplog.text


def test_a_healthy_run_warns_of_nothing(models, rotated, caplog):
    with caplog.at_level(logging.WARNING):
        run(PriotTrainer(models["priot"], epochs=2), rotated, epochs=2)
    assert not caplog.records


def test_a_fully_pruned_layer_is_named_and_changes_nothing_frozen(models, rotated, caplog):
    net, info = read_net(models["priot"])
    net.layers[0].scores[:] = -128
    net.layers[0].bias = np.arange(16, dtype=np.int32) * 100
    with caplog.at_level(logging.WARNING):
        trainer = PriotTrainer(write_net(net, info=info), epochs=1)
        result = run(trainer, rotated, epochs=1)
    assert "conv1" in caplog.text
    assert "fully pruned" in caplog.text
    after, _ = read_net(trainer.model_bytes())
    np.testing.assert_array_equal(after.layers[0].bias, net.layers[0].bias)
    np.testing.assert_array_equal(after.layers[0].weights, net.layers[0].weights)
    assert np.isfinite(result.history[0]["train_loss"])


def test_statistics_name_each_layer(models, rotated):
    trainer = PriotTrainer(models["priot-s"], epochs=2)
    row = run(trainer, rotated, epochs=1).history[0]
    for layer in ("conv1", "conv2", "dense1", "logits"):
        assert 0 <= row[f"pruned/{layer}"] <= 0.1
        assert row[f"crossed/{layer}"] >= 0
        assert 0 <= row[f"saturated/{layer}"] <= 1


def test_scores_can_be_drawn_anew_from_a_seed(models):
    scores = [
        PriotTrainer(models["priot"], init=(0, 32), seed=s).net.layers[0].scores for s in (0, 0, 1)
    ]
    np.testing.assert_array_equal(scores[0], scores[1])
    assert np.any(scores[0] != scores[2])


def test_weight_based_selection_scores_the_largest_weights(models):
    trainer = PriotTrainer(models["priot-s"], init=(32, 8), selection="weight", unscored=0.8)
    for layer in trainer.net.weighted():
        magnitude = np.abs(layer.weights.astype(int))
        assert layer.scored.sum() == round(0.2 * layer.scored.size)
        assert magnitude[layer.scored].min() >= magnitude[~layer.scored].max()


def test_schedules_lower_mu_at_half_and_three_quarters():
    assert [mu_at(2, "decayed", e, 8) for e in range(8)] == [2, 2, 2, 2, 1, 1, 0, 0]
    assert [mu_at(1, "decayed", e, 4) for e in range(4)] == [1, 1, 0, 0]
    assert [mu_at(2, (5, 4, 3), e, 6) for e in range(6)] == [5, 5, 4, 4, 3, 3]
    assert mu_at(3, "constant", 99, 100) == 3


def test_footprints_stay_below_the_papers(models):
    bytes_of = {name: footprint(read_net(raw)[0])["total"] for name, raw in models.items()}
    assert bytes_of["niti"] < 80136
    assert bytes_of["priot"] < 138044
    assert bytes_of["priot-s"] < 97672


def test_wrong_models_options_and_data_are_refused(models, mnist_int8):
    with pytest.raises(UnsupportedModelError, match="--method"):
        PriotTrainer(mnist_int8)
    with pytest.raises(UnsupportedModelError, match="niti"):
        PriotTrainer(models["priot"], method="niti")
    for options in ({"mu": 8}, {"rounding": "up"}, {"method": "sgd"}, {"kept": 0.0}, {"epochs": 0}):
        with pytest.raises(ValueError, match="Expected"):
            PriotOptions(**options)
    trainer = PriotTrainer(models["priot"])
    with pytest.raises(DataError, match="28, 28, 1"):
        trainer.prepare(np.zeros((3, 5)))
    with pytest.raises(DataError, match="finite"):
        trainer.prepare(np.full((1, 28, 28, 1), np.nan))
    with pytest.raises(DataError, match="labels"):
        trainer.check_targets([10])


def test_dynamic_shifts_are_refused_for_a_net_with_biases(models):
    net, info = read_net(models["niti"])
    net.layers[0].bias = np.ones(16, np.int32)
    with pytest.raises(TrainingError, match="bias"):
        PriotTrainer(write_net(net, info=info), method="niti", dynamic=True)
