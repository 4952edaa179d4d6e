"""A zeroth-order step of MobileNetV2-0.35's last layers against the loops one would write.

  python -m benchmarks zo_step [--q 16] [--batch 32] [--layers 1 2 3] [--rounds 5]

Every contestant computes the losses of one batch at the weights and at q perturbations of them.
"cached" has the features of the frozen layers from before, "first pass" computes them in the step.
The loops perturb with NumPy and run the whole model on the batch:
  no delegate    LiteRT without delegates, weights set in place
  XNNPACK stale  LiteRT's default, weights set in place: fast and wrong, it never sees them
  XNNPACK fresh  an interpreter rebuilt for every perturbation, the honest way to use XNNPACK
  cut, no delegate  the loop without delegates over the trainable layers alone, features cached
"""

import argparse

import numpy as np

from benchmarks._models import mobilenet_v2
from benchmarks._timing import interleaved, milliseconds, table
from tflm_train import _native

LOSS_MULT = 9455  # a logits scale of 0.1
SEED, MU = 1, 1


class Case:
    """The model, its last `layers` weight tensors as trainable ones, a batch, its features."""

    def __init__(self, raw, layers, batch):
        self.raw = raw
        self.batch = batch
        engine = _native.Engine(raw)
        weighted = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")
        ops = [i for i, op in enumerate(engine.ops) if op["name"] in weighted][-layers:]
        self.first_op = ops[0]
        self.logits = engine.ops[ops[-1]]["outputs"][0]
        self.tensors = [engine.ops[i]["inputs"][1] for i in ops]
        for t in self.tensors:
            engine.write_tensor(t, np.clip(engine.read_tensor(t), -126, 126))
        self.raw = engine.serialize()
        self.engine = _native.Engine(self.raw)
        rng = np.random.default_rng(0)
        shape = engine.inputs[0]["shape"]
        self.x = rng.integers(-128, 128, (batch, *shape[1:]), dtype=np.int8)
        self.input = engine.inputs[0]["index"]
        final = engine.outputs[0]["index"]
        self.live = [t for t in self.engine.live_tensors(self.first_op) if t != final]
        self.features = self.compute_features()
        classes = engine.tensor(self.logits)["shape"][-1]
        self.y = rng.integers(0, classes, batch).astype(np.int32)

    def compute_features(self):
        return self.engine.run_range(0, self.first_op, {self.input: self.x}, self.live)

    def arguments(self):
        return {
            "feeds": dict(zip(self.live, self.features, strict=True)),
            "first_op": self.first_op,
            "logits_index": self.logits,
            "targets": self.y,
            "loss": "cross_entropy",
            "mult": LOSS_MULT,
            "trainable": [(t, 1, 126) for t in self.tensors],
            "seed": SEED,
            "mu": MU,
            "estimator": "one_sided",
        }

    def loss(self, logits):
        logits = np.ascontiguousarray(logits.reshape(self.batch, -1))
        return int(_native.zo_cross_entropy(logits, self.y, LOSS_MULT).sum())

    def perturbed(self, k):
        """The trainable tensors at w + mu z_k."""
        block, result = 0, []
        for t in self.tensors:
            w = self.engine.read_tensor(t)
            _native.zo_perturb(w.reshape(-1), SEED, 0, k, block, MU)
            block += -(-w.size // 32)
            result.append(w)
        return result


class Loop:
    """A loop over LiteRT; `fresh` rebuilds the interpreter for every set of weights."""

    def __init__(self, case, resolver, q, *, fresh=False, features=False):
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self.case, self.q, self.fresh = case, q, fresh
        self.resolver = getattr(OpResolverType, resolver)
        self.interpreter_class = Interpreter
        self.weights = [case.engine.read_tensor(t) for t in case.tensors]
        if features:
            self.raw, self.tensors = _cut(case)
            self.inputs = case.features
        else:
            self.raw, self.tensors, self.inputs = bytearray(case.raw), case.tensors, [case.x]
        self.places = _places(self.raw, self.tensors)
        self.interpreter = None if fresh else self.build()

    def build(self):
        interpreter = self.interpreter_class(
            model_content=bytes(self.raw),
            experimental_op_resolver_type=self.resolver,
            num_threads=1,
        )
        for spec, x in zip(interpreter.get_input_details(), self.inputs, strict=True):
            interpreter.resize_tensor_input(spec["index"], list(x.shape))
        interpreter.allocate_tensors()
        return interpreter

    def forward(self, weights):
        if self.fresh:
            for (begin, end), w in zip(self.places, weights, strict=True):
                self.raw[begin:end] = w.tobytes()
            interpreter = self.build()
        else:
            interpreter = self.interpreter
            for t, w in zip(self.tensors, weights, strict=True):
                interpreter.set_tensor(t, w)
        for spec, x in zip(interpreter.get_input_details(), self.inputs, strict=True):
            interpreter.set_tensor(spec["index"], x)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    def __call__(self):
        losses = [self.case.loss(self.forward(self.weights))]
        losses += [self.case.loss(self.forward(self.case.perturbed(k))) for k in range(self.q)]
        return losses


def _cut(case):
    """(bytes of the trainable layers alone, their tensors' indices there)."""
    from converters.flatbuffer import read_model, write_model

    model = read_model(case.raw)
    graph = model.subgraphs[0]
    graph.operators = graph.operators[case.first_op :]
    graph.inputs = np.array(case.live, np.int32)
    model.signatureDefs = None
    return bytearray(write_model(model)), case.tensors


def _places(raw, tensors):
    """Where the tensors' bytes lie in the file."""
    from converters.flatbuffer import constant, read_model

    model = read_model(bytes(raw))
    places = []
    for t in tensors:
        values = constant(model, model.subgraphs[0].tensors[t]).tobytes()
        begin = bytes(raw).find(values)
        assert begin >= 0
        assert bytes(raw).find(values, begin + 1) < 0
        places.append((begin, begin + len(values)))
    return places


def measure(raw, layers, q, batch, rounds, steps=64):
    """{contestant: figures} for a suffix of `layers` weight tensors."""
    case = Case(raw, layers, batch)
    arguments = case.arguments()
    order = np.tile(np.arange(batch, dtype=np.int32), steps)
    sizes = [case.engine.read_tensor(t).size for t in case.tensors]
    momentum = [np.zeros(n, np.int32) for n in sizes]
    trained = _native.Engine(case.raw)

    def losses():
        return case.engine.zo_losses(**arguments, step=0, q=q)

    def first_pass():
        case.compute_features()
        return losses()

    def run():
        trained.zo_train(
            **arguments,
            first_step=0,
            q=q,
            indices=order,
            batch_size=batch,
            normalize="rms",
            rates=np.full(steps, 1 << 12, np.uint32),
            beta_q8=230,
            momentum=momentum,
            shadow=[None] * len(sizes),
        )

    builtin = "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
    calls = {
        "native, cached, with update": run,
        "native, cached, losses": losses,
        "native, first pass": first_pass,
        "loop, no delegate": Loop(case, builtin, q),
        "loop, XNNPACK stale": Loop(case, "AUTO", q),
        "loop, XNNPACK fresh": Loop(case, "AUTO", q, fresh=True),
        "loop, cut, no delegate": Loop(case, builtin, q, features=True),
    }
    figures = interleaved(calls, rounds=rounds, seconds=120)
    for key in ("median", "fastest"):
        figures["native, cached, with update"][key] /= steps
    ours = figures["native, cached, with update"]["median"]
    first = figures["native, first pass"]["median"]
    for f in figures.values():
        f["times_cached"] = f["median"] / ours
        f["times_first_pass"] = f["median"] / first
    return figures


def random_numbers(rounds):
    """Nanoseconds per element of signs made and of weights perturbed."""
    size = 1 << 20
    w = np.zeros(size, np.int8)
    figures = interleaved(
        {
            "random words": lambda: _native.rng_words(1, 2, 3, 0, size // 32),
            "perturbing int8 weights": lambda: _native.zo_perturb(w, 1, 2, 3, 0, 1),
        },
        rounds=max(rounds, 20),
    )
    return {name: f["median"] / size * 1e9 for name, f in figures.items()}


def main(argv=None):
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--q", type=int, default=16)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(argv)
    raw = mobilenet_v2()
    result = {"q": args.q, "batch": args.batch}
    for layers in args.layers:
        figures = measure(raw, layers, args.q, args.batch, args.rounds)
        result[f"last {layers}"] = figures
        rows = [
            (
                name,
                milliseconds(f["median"]),
                f"{f['times_cached']:.1f}",
                f"{f['times_first_pass']:.2f}",
            )
            for name, f in figures.items()
        ]
        table(
            f"a step, last {layers} weight tensors, q = {args.q}, batch {args.batch}",
            rows,
            ("", "median", "times cached", "times first pass"),
        )
    result["nanoseconds per element"] = random_numbers(args.rounds)
    rows = [(k, f"{v:.3f} ns") for k, v in result["nanoseconds per element"].items()]
    table("random numbers", rows, ("", "per element"))
    return result


if __name__ == "__main__":
    main()
