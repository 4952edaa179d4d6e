"""Features of the frozen prefix: computed once per sample, on disk when they are large."""

import tempfile
import weakref
from pathlib import Path

import numpy as np

# Above this many bytes the features go to a memory-mapped file.
MEMORY_LIMIT = 1 << 30
_CHUNK = 256


def compute_features(engine, inputs, *, cache_dir=None, progress=None, memory_limit=None):
    """Run `engine` over `inputs` (int8 arrays [n, ...]) in chunks.

    Returns:
      One int8 array [n, ...] per output of the engine; memory-mapped when all together exceed
      `memory_limit` bytes (1 GiB by default).
    """
    count = len(inputs[0])
    shapes = [(count, *spec.shape[1:]) for spec in engine.outputs]
    size = sum(int(np.prod(shape)) for shape in shapes)
    limit = MEMORY_LIMIT if memory_limit is None else memory_limit
    if size > limit:
        arrays = _mapped(shapes, cache_dir)
    else:
        arrays = [np.empty(shape, np.int8) for shape in shapes]
    for begin in range(0, count, _CHUNK):
        part = [np.ascontiguousarray(x[begin : begin + _CHUNK]) for x in inputs]
        for array, result in zip(arrays, engine.run(part), strict=True):
            array[begin : begin + _CHUNK] = result
        if progress is not None:
            progress(min(begin + _CHUNK, count), count)
    return arrays


def _mapped(shapes, cache_dir):
    folder = tempfile.TemporaryDirectory(prefix="tflm_train_features_", dir=cache_dir)
    arrays = [
        np.memmap(Path(folder.name) / f"features_{i}.int8", np.int8, "w+", shape=shape)
        for i, shape in enumerate(shapes)
    ]
    # The folder goes when the last array does.
    pending = [len(arrays)]

    def release():
        pending[0] -= 1
        if not pending[0]:
            folder.cleanup()

    for array in arrays:
        weakref.finalize(array, release)
    return arrays
