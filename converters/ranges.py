"""Observe the range of every activation of a float graph over the calibration samples."""

import numpy as np

from converters.flatbuffer import constant
from converters.quiet import quiet_native_output


def observe_ranges(model, raw, data, *, progress=None):
    """Run the float model on each sample.

    Args:
      model: the float `schema.ModelT`.
      raw: its bytes.
      data: `converters.calibration.CalibrationData`.
      progress: called with (samples done, samples in all) after each sample.

    Returns:
      {tensor index: (min, max)} of every float activation, inputs included.
    """
    interpreter = float_interpreter(raw)
    graph = model.subgraphs[0]
    activations = [
        i
        for i in sorted({int(i) for op in graph.operators for i in op.outputs} | set(graph.inputs))
        if constant(model, graph.tensors[i]) is None
    ]
    low = np.full(len(activations), np.inf)
    high = np.full(len(activations), -np.inf)
    for sample in range(data.count):
        for index, array in zip(graph.inputs, data.arrays, strict=True):
            interpreter.set_tensor(int(index), array[sample : sample + 1])
        interpreter.invoke()
        for k, index in enumerate(activations):
            values = interpreter.get_tensor(int(index))
            # np.minimum lets a NaN through, so the caller sees it.
            low[k] = np.minimum(low[k], values.min())
            high[k] = np.maximum(high[k], values.max())
        if progress:
            progress(sample + 1, data.count)
    return {int(i): (float(a), float(b)) for i, a, b in zip(activations, low, high, strict=True)}


def float_interpreter(raw):
    """A LiteRT interpreter that keeps every intermediate tensor; no delegate packs or fuses."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    with quiet_native_output():
        interpreter = Interpreter(
            model_content=raw,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            experimental_preserve_all_tensors=True,
            num_threads=1,
        )
        interpreter.allocate_tensors()
    return interpreter
