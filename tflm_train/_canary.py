"""Prove that an engine uses weights written in place, before anything is trained with it."""

import numpy as np

from converters.errors import StaleWeightsError

_TRIES = 8


def check_fresh(make_engine, engine, raw_with, tensors):
    """Change each weight tensor, run, and compare with an engine built on the changed model.

    Args:
      make_engine: `bytes -> Engine`, the same kind of engine as `engine`.
      engine: the engine that will train; left as it was.
      raw_with: `{tensor index: values} -> bytes`, the flatbuffer with those constants.
      tensors: indices of the tensors that training will change.

    Raises:
      StaleWeightsError: the engine went on with the old weights, or is known to pack them.
    """
    if engine.packs_weights:
        raise StaleWeightsError(_message(engine.name, "one that packs weights when it is built"))
    rng = np.random.default_rng(0)
    feeds = [
        rng.integers(-128, 128, (4, *spec.shape[1:])).astype(np.int8) for spec in engine.inputs
    ]
    for index in tensors:
        original = engine.read(index)
        before = engine.run(feeds)
        for _ in range(_TRIES):
            changed = _scrambled(original, rng)
            rebuilt = make_engine(raw_with({index: changed})).run(feeds)
            if not _equal(rebuilt, before):
                break
        else:
            # No change of this tensor shows in the outputs: staleness could not either.
            continue
        engine.write(index, changed)
        try:
            in_place = engine.run(feeds)
        finally:
            engine.write(index, original)
        after = engine.run(feeds)
        if not _equal(in_place, rebuilt) or not _equal(after, before):
            raise StaleWeightsError(
                _message(engine.name, f"outputs of the old weights of tensor {index}")
            )


def _message(name, found):
    return (
        f"Expected an engine that uses weights written in place, got {found} ({name!r}). Use "
        "engine='native' (or 'litert', 'tflm') for training; a packing engine serves as "
        "prefix_engine only"
    )


def _scrambled(original, rng):
    if original.dtype == np.int8:
        return rng.integers(-126, 127, original.shape).astype(np.int8)
    reach = max(1, 4 * int(np.abs(original).max(initial=1)))
    return rng.integers(-reach, reach + 1, original.shape).astype(original.dtype)


def _equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
