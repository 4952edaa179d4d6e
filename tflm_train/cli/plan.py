"""Say whether a model fits a board before anything is built or flashed.

  tflm-train plan model.tflite --target rp2040
  tflm-train plan model.tflite --target cortex-m55 --data digits --rotate 30

Prints RAM and flash by purpose, cycles of an inference and of a training step (instructions for
Cortex-M55), what does not fit and what to change. Prices of work were fitted to emulators. Zeros
are skipped on RP2040, so time depends on the data: with --data it is counted on samples, without on
random ones.
"""

NAME = "plan"
HELP = "RAM, flash and cycles of a model on a board, before flashing"


def add_arguments(parser):
    """Declare this command's arguments."""
    from tflm_train.cli import _common, _firmware

    parser.add_argument("model", metavar="MODEL.tflite")
    _common.add_data_arguments(parser, required=False)
    _firmware.add_arguments(parser, ["rp2040", "cortex-m55"])
    parser.add_argument("--samples", type=int, default=32, help="of the data (default 32)")
    parser.add_argument("--report", metavar="FILE.json", help="also write the figures as JSON")


def run(args):
    """Plan and print; exit code 3 when the model does not fit."""
    import dataclasses
    import json
    from pathlib import Path

    from tflm_train._firmware.memory import plan_memory
    from tflm_train._firmware.targets import find_target
    from tflm_train.cli import _common, _firmware

    source = _firmware.source_of(args)
    memory, target = plan_memory(source, args.target), find_target(args.target)
    costs, basis = _costs(args, source)
    out = _common.console()
    _print_memory(out, memory, target)
    _print_costs(out, costs, basis, args)
    problems = _problems(memory, target, source)
    for problem in problems:
        out.print(f"[bold red]does not fit:[/] {problem}")
    if not problems:
        out.print("fits")
    if args.report:
        report = {**dataclasses.asdict(memory), "ram": memory.ram, "flash": memory.flash,
                  "costs": costs, "basis": basis, "problems": problems}  # fmt: skip
        Path(args.report).write_text(json.dumps(report, indent=1))
    return 3 if problems else 0


def _costs(args, source):
    import numpy as np

    from tflm_train._firmware.cost import chain_costs
    from tflm_train._firmware.host_twin import ChainTwin
    from tflm_train.cli import _common

    if not hasattr(source, "chain"):
        return _graph_costs(args, source)
    layers = source.chain.layers
    interpreter = None
    if args.data:
        from tflm_train import Interpreter

        interpreter = Interpreter(args.model)
        data = _common.load_data(args, "train").take(range(args.samples))
        x, y, basis = data.x, np.asarray(data.y, np.int32), f"{args.samples} samples of {args.data}"
    else:
        rng = np.random.default_rng(args.seed)
        x = rng.integers(0, 128, (args.samples, layers[0].in_size)).astype(np.int8)
        y = rng.integers(0, layers[-1].out_size, args.samples).astype(np.int32)
        basis = "random samples without zeros; --data tells the time of yours"
    twin = ChainTwin(interpreter, source.chain)
    codes = twin.codes(x) if args.data else x
    return chain_costs(source, twin, codes, y, args.target), basis


def _graph_costs(args, source):
    import numpy as np

    from tflm_train import Interpreter, _native
    from tflm_train._firmware.cost import graph_costs
    from tflm_train.cli import _common

    if not args.data:
        return graph_costs(source, args.target), "for inputs without zeros; --data tells yours"
    interpreter = Interpreter(args.model)
    data = _common.load_data(args, "train").take(range(args.samples))
    parts = interpreter.quantize(data.x)
    engine = _native.Engine(interpreter.to_bytes(), preserve_all=True)
    every = []
    for i in range(args.samples):
        dumped = engine.dump([part[i : i + 1] for part in parts])
        every.append(graph_costs(source, args.target, dumped))
    means = {key: float(np.mean([costs[key] for costs in every])) for key in every[0]}
    return means, f"{args.samples} samples of {args.data}"


def _print_memory(out, memory, target):
    from rich.table import Table

    table = Table(title=f"{target.name}, bytes")
    table.add_column("RAM")
    table.add_column("", justify="right")
    table.add_column("flash")
    table.add_column("", justify="right")
    ram = [
        ("arena: activations, errors, scratch", memory.arena),
        ("scores or weights that train", memory.trained),
        ("momentum and shadows", memory.momentum),
        ("features of the frozen layers", memory.features),
        ("serial buffers and samples", memory.application),
        ("stack", memory.stack),
        ("all", memory.ram),
        (f"of {target.name}", target.ram),
    ]
    flash = [
        ("constants", memory.constants),
        ("code (typical)", memory.code),
        ("all", memory.flash),
        (f"of {target.name}", target.flash),
    ]
    for i, (name, size) in enumerate(ram):
        right = flash[i] if i < len(flash) else ("", None)
        table.add_row(name, f"{size:,}", right[0], "" if right[1] is None else f"{right[1]:,}")
    out.print(table)


def _print_costs(out, costs, basis, args):
    from tflm_train._firmware.cost import UNITS
    from tflm_train._firmware.targets import find_target

    unit, clock = UNITS[args.target], find_target(args.target).clock
    names = {
        "infer": "one inference",
        "train": "one training step",
        "train_last_q": "one training step at the last q",
    }
    for key, name in names.items():
        if costs.get(key) is None:
            continue
        text = f"{name}: about {costs[key]:,.0f} {unit}"
        if args.target == "rp2040":
            text += f", {costs[key] / clock * 1e3:.1f} ms at {clock // 1_000_000} MHz"
        out.print(text)
    if "trained_share" in costs:
        out.print(
            f"{costs['trained_share']:.0%} of the samples leave an error; the others cost an "
            "inference"
        )
    out.print(f"(priced by emulated runs; {basis})")


def _problems(memory, target, source):
    problems = []
    if memory.ram > target.ram:
        over = memory.ram - target.ram
        advice = ["a smaller input or fewer channels"]
        if memory.momentum:
            advice.insert(0, f"--momentum 0 saves {memory.momentum:,} bytes")
        if memory.features:
            advice.insert(0, "a smaller --batch-size")
        if hasattr(source, "chain") and source.chain.method == "priot":
            advice.insert(0, "method priot-s keeps scores for a tenth of the edges")
        problems.append(f"{over:,} bytes of RAM too many: {'; '.join(advice)}")
    if memory.flash > target.flash:
        problems.append(
            f"{memory.flash - target.flash:,} bytes of flash too many: a narrower model"
        )
    return problems
