"""Run the float model the user gave, to compare the int8 one with."""

import numpy as np

from converters.loading import load_model
from converters.quiet import quiet_native_output


def float_predictor(model):
    """A function from a list of float arrays `[n, ...]`, in input order, to output 0 `[n, ...]`.

    Args:
      model: what `converters.convert` takes.
    """
    model = load_model(model)
    if hasattr(model, "predict"):

        def predict(arrays):
            arrays = [np.asarray(a, np.float32) for a in arrays]
            with quiet_native_output():
                result = model.predict(
                    arrays if len(arrays) > 1 else arrays[0], batch_size=64, verbose=0
                )
            while isinstance(result, (list, tuple, dict)):
                result = next(iter(result.values())) if isinstance(result, dict) else result[0]
            return np.asarray(result, np.float32)

        return predict
    return _saved_model_predictor(model)


def _saved_model_predictor(model):
    signatures = dict(model.signatures)
    key = "serving_default" if "serving_default" in signatures else sorted(signatures)[0]
    signature = signatures[key]
    specs = signature.structured_input_signature[1]

    def predict(arrays):
        outputs = []
        for begin in range(0, len(arrays[0]), 64):
            batch = {
                name: np.asarray(a[begin : begin + 64], spec.dtype.as_numpy_dtype)
                for (name, spec), a in zip(specs.items(), arrays, strict=True)
            }
            outputs.append(next(iter(signature(**batch).values())).numpy())
        return np.concatenate(outputs).astype(np.float32)

    return predict


def classification_accuracy(outputs, labels, *, turning=0.5):
    """Share of right classes: the largest output, or whether a single one exceeds `turning`."""
    outputs = np.asarray(outputs).reshape(len(outputs), -1)
    labels = np.asarray(labels).reshape(-1)
    found = (outputs[:, 0] > turning) if outputs.shape[1] == 1 else outputs.argmax(1)
    return float(np.mean(found.astype(np.int64) == labels))
