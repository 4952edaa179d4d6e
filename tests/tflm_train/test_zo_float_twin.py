import numpy as np
import pytest

from converters.errors import UnsupportedModelError
from converters.flatbuffer import read_model, write_model
from tflm_train import Interpreter, fit
from tflm_train.zo import ZoTrainer
from tflm_train.zo._float_graph import FloatGraph
from tflm_train.zo._float_twin import FloatZoTrainer


def test_the_float_graph_follows_the_int8_one_within_rounding(mnist_int8, rotated):
    x = rotated[0][0][:16]
    interpreter = Interpreter(mnist_int8)
    model = read_model(mnist_int8)
    graph = FloatGraph(model, interpreter.logits_spec.index)
    difference = graph.run(interpreter.quantize(x)) - interpreter.logits(x)
    # Six layers of rounding, at a logits step of about 0.2.
    assert np.abs(difference).max() < 6 * interpreter.logits_spec.scale
    assert np.abs(difference).mean() < interpreter.logits_spec.scale


@pytest.mark.parametrize("estimator", ["one_sided", "two_sided"])
@pytest.mark.parametrize("normalize", ["rms", "raw"])
def test_int8_training_keeps_up_with_its_float_twin(mnist_int8, rotated, estimator, normalize):
    (x, y), (x_test, y_test) = rotated
    accuracy = {}
    for cls in (ZoTrainer, FloatZoTrainer):
        trainer = cls(
            Interpreter(mnist_int8),
            q=16,
            lr=0.5 if normalize == "rms" else 100.0,
            normalize=normalize,
            estimator=estimator,
            momentum=0.9 if normalize == "rms" else 0.0,
        )
        result = fit(trainer, (x, y), (x_test, y_test), epochs=6, batch_size=64)
        accuracy[cls] = result.history[-1]["validation_accuracy"]
        assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]
    assert accuracy[ZoTrainer] > accuracy[FloatZoTrainer] - 0.06


def test_the_twin_resumes_where_it_was(mnist_int8, rotated, tmp_path):
    (x, y), _ = rotated
    make = lambda: FloatZoTrainer(Interpreter(mnist_int8), q=2)  # noqa: E731
    whole = make()
    fit(whole, (x[:64], y[:64]), epochs=2, batch_size=32)
    part = make()
    fit(part, (x[:64], y[:64]), epochs=1, batch_size=32, checkpoint=tmp_path / "c")
    again = make()
    fit(again, (x[:64], y[:64]), epochs=2, batch_size=32, checkpoint=tmp_path / "c")
    assert again.model_bytes() == whole.model_bytes()


def test_an_operator_without_a_twin_is_named(mnist_int8):
    model = read_model(mnist_int8)
    model.operatorCodes[model.subgraphs[0].operators[0].opcodeIndex].builtinCode = 13
    model.operatorCodes[model.subgraphs[0].operators[0].opcodeIndex].deprecatedBuiltinCode = 13
    with pytest.raises(UnsupportedModelError, match="float twin, got .*fewer layers"):
        FloatGraph(read_model(write_model(model)), 0)
