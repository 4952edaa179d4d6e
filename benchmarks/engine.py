"""One inference of each engine, batch 1: the native engine, TFLM's wheel, LiteRT's resolvers.

  python -m benchmarks engine [--models mobilenet_v2 a.tflite ...] [--rounds 60]

Engines run in turn, so a busy machine slows all of them; ratios compare the medians of one run.
"exact" says whether an engine's outputs on 20 random inputs are TFLM's, byte for byte.
"""

import argparse

import numpy as np

from benchmarks._models import EXAMPLES, SHARED, models
from benchmarks._timing import interleaved, milliseconds, table
from tflm_train import _native

CHECKED = 20


def litert(raw, resolver):
    """call(x) on LiteRT with an op resolver."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=bytes(bytearray(raw)),
        experimental_op_resolver_type=getattr(OpResolverType, resolver),
        num_threads=1,
    )
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    made = interpreter.get_output_details()[0]

    def call(x):
        interpreter.set_tensor(given["index"], x)
        interpreter.invoke()
        return interpreter.get_tensor(made["index"])

    return call


def tflm(raw):
    """call(x) on TFLM's own reference kernels; None without the wheel."""
    try:
        from tflite_micro.python.tflite_micro import runtime
    except ImportError:
        return None
    interpreter = runtime.Interpreter.from_bytes(bytes(bytearray(raw)))

    def call(x):
        interpreter.set_input(x, 0)
        interpreter.invoke()
        return interpreter.get_output(0)

    return call


def measure(raw, rounds):
    """{engine: figures} for one model."""
    engines = {
        f"native, {level}": _native.Engine(raw, simd=level).run for level in _native.simd_levels()
    }
    engines["TFLM wheel"] = tflm(raw)
    engines["LiteRT XNNPACK"] = litert(raw, "AUTO")
    engines["LiteRT builtin"] = litert(raw, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
    engines["LiteRT reference"] = litert(raw, "BUILTIN_REF")
    engines = {name: call for name, call in engines.items() if call is not None}
    shape = _native.Engine(raw).inputs[0]["shape"]
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (CHECKED, *shape[1:]), dtype=np.int8)
    judge = "TFLM wheel" if "TFLM wheel" in engines else "native, portable"
    expected = [np.array(engines[judge](x[i : i + 1])) for i in range(CHECKED)]
    figures = interleaved(
        {name: (lambda call=call: call(x[:1])) for name, call in engines.items()}, rounds=rounds
    )
    fastest = figures[next(iter(figures))]["median"]
    for name, call in engines.items():
        figures[name]["exact"] = all(
            np.array_equal(call(x[i : i + 1]), expected[i]) for i in range(CHECKED)
        )
        figures[name]["ratio"] = figures[name]["median"] / fastest
    return figures


def main(argv=None):
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = ["mobilenet_v2", str(EXAMPLES / "mnist_cnn_int8.tflite")]
    default += [str(p) for p in sorted(SHARED.glob("*.tflite"))]
    parser.add_argument("--models", nargs="+", default=default)
    parser.add_argument("--rounds", type=int, default=60)
    args = parser.parse_args(argv)
    result = {}
    for name, raw in models(args.models).items():
        result[name] = measure(raw, args.rounds)
        rows = [
            (engine, milliseconds(f["median"]), f"{f['ratio']:.2f}", "yes" if f["exact"] else "no")
            for engine, f in result[name].items()
        ]
        table(name, rows, ("engine", "median", "times native", "exact"))
    return result


if __name__ == "__main__":
    main()
