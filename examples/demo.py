"""The main job from end to end: a Keras model becomes int8, meets rotated digits, and learns them.

  python examples/demo.py --output out/demo

A CNN trained on upright MNIST digits is converted to int8 with fixed scales and evaluated on
held-out digits turned by 30 degrees, where it fails. Then it learns them twice, in integers: its
last layer with forward passes alone (ZO with QScheduler), and all layers by pruning edges with
trained scores (PRIOT). Digits for training, for choosing the epoch and for the final figure are
three disjoint sets.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from convert_mnist_cnn import MODEL, convert
from rich.console import Console

import tflm_train
from converters.priot_freeze import freeze
from tflm_train import _report
from tflm_train._evaluate import evaluate
from tflm_train.cli._progress import TrainingView
from tflm_train.data import Dataset, load_dataset, rotate, split
from tflm_train.priot import PriotTrainer
from tflm_train.zo import ZoTrainer, qscheduler

DEGREES = 30
ZO_EPOCHS, ZO_BATCH = 20, 64
PRIOT_EPOCHS = 10


def train_zo(raw, train, held_out, *, seed, out):
    """Fine-tune the last layer; the epoch with the best held-out accuracy is kept."""
    trainer = ZoTrainer(
        tflm_train.Interpreter(raw),
        scheduler=qscheduler(q_init=16, q_max=64, patience=3, tau=0.01),
        lr=0.5,
        decay="cosine",
        total_steps=ZO_EPOCHS * -(-len(train) // ZO_BATCH),
        seed=seed,
    )
    return fit(trainer, train, held_out, epochs=ZO_EPOCHS, batch_size=ZO_BATCH, seed=seed, out=out)


def train_priot(raw, train, held_out, *, seed, out):
    """Train a score per edge, one digit at a time; weights stay as they were pre-trained."""
    trainer = PriotTrainer(raw, epochs=PRIOT_EPOCHS, init=(0, 32), seed=seed)
    return fit(trainer, train, held_out, epochs=PRIOT_EPOCHS, batch_size=1, seed=seed, out=out)


def fit(trainer, train, held_out, *, epochs, batch_size, seed, out):
    """The shared training loop with its progress on `out`."""
    with TrainingView(out, epochs) as view:
        return tflm_train.fit(
            trainer,
            train.labelled(),
            held_out.labelled(),
            epochs=epochs,
            batch_size=batch_size,
            seed=seed,
            on_batch=view.batch,
            on_epoch=view.epoch,
        )


def run(name, train_one, raw, rotated, test, folder, *, seeds, before, out):
    """Accuracies on the test digits, one per seed; model and picture of the first are saved."""
    accuracies = []
    for seed in range(seeds):
        train, held_out = split(rotated, 0.2, seed=seed)
        result = train_one(raw, train, held_out, seed=seed, out=out)
        model = result.best_model
        if name == "priot":
            model = freeze(model)  # pruned weights as zeros: a plain .tflite
        accuracies.append(evaluate(tflm_train.Interpreter(model), test.x, test.y)["accuracy"])
        if seed == 0:
            (folder / f"model_{name}.tflite").write_bytes(model)
            _report.plot_history(
                result.history,
                folder / f"{name}.png",
                title=f"digits rotated {DEGREES}°: {name}",
                reference={"before": before},
            )
            out.print(f"saved {folder / f'model_{name}.tflite'} and {folder / f'{name}.png'}")
    return accuracies


def main():
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("out/demo"), help="folder for results")
    parser.add_argument("--seeds", type=int, default=1, help="runs with seeds 0, 1, … (default 1)")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    out = Console(highlight=False)

    upright, test = load_dataset("digits", part="train"), load_dataset("digits", part="test")
    rotated = Dataset(rotate(upright.x, DEGREES), upright.y, name=f"digits rotated {DEGREES}")
    rotated_test = Dataset(rotate(test.x, DEGREES), test.y)

    out.rule("1. convert")
    raw = convert(upright.x[::8])
    (args.output / "model.tflite").write_bytes(raw)
    interpreter = tflm_train.Interpreter(raw)
    before = evaluate(interpreter, rotated_test.x, test.y)["accuracy"]
    out.print(
        f"{args.output / 'model.tflite'}: {len(raw)} bytes; accuracy on {len(test)} test digits: "
        f"upright {evaluate(interpreter, test.x, test.y)['accuracy']:.3f}, rotated {before:.3f}"
    )

    out.rule("2. the last layer learns with forward passes alone (ZO, QScheduler)")
    shared = {"seeds": args.seeds, "before": before, "out": out}
    zo = run("zo", train_zo, raw, rotated, rotated_test, args.output, **shared)

    out.rule("3. all layers learn by pruning, in integers alone (PRIOT)")
    raw = tflm_train.convert(
        str(MODEL),
        calibration=upright.x[::8],
        targets=upright.y[::8],
        method="priot",
        normalization={"scale": 1 / 255, "offset": 0.0},
    )
    priot = run("priot", train_priot, raw, rotated, rotated_test, args.output, **shared)

    figures = " ".join(f"{name}={_mean(values)}" for name, values in (("zo", zo), ("priot", priot)))
    sys.stdout.write(f"demo: rotated-{DEGREES} accuracy before={before:.3f} {figures}\n")


def _mean(values):
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{np.mean(values):.3f}±{np.std(values, ddof=1):.3f}"


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
