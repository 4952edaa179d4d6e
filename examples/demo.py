"""The main job from end to end: a Keras model becomes int8, meets rotated digits, and learns them.

  python examples/demo.py --output out/demo

A CNN trained on upright MNIST digits is converted to int8 with fixed scales and evaluated on
held-out digits turned by 30 degrees, where it fails; then its last layer is fine-tuned in integers
with forward passes alone (ZO with QScheduler). Digits for training, for choosing the epoch and for
the final figure are three disjoint sets.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from convert_mnist_cnn import convert
from rich.console import Console

import tflm_train
from tflm_train import _report
from tflm_train._evaluate import evaluate
from tflm_train.cli._progress import TrainingView
from tflm_train.data import Dataset, load_dataset, rotate, split
from tflm_train.zo import ZoTrainer, qscheduler

DEGREES = 30
EPOCHS = 20
BATCH = 64


def train_zo(raw, train, held_out, *, seed, out):
    """Fine-tune the last layer; the epoch with the best held-out accuracy is kept."""
    scheduler = qscheduler(q_init=16, q_max=64, patience=3, tau=0.01)
    trainer = ZoTrainer(
        tflm_train.Interpreter(raw),
        scheduler=scheduler,
        lr=0.5,
        decay="cosine",
        total_steps=EPOCHS * -(-len(train) // BATCH),
        seed=seed,
    )
    with TrainingView(out, EPOCHS) as view:
        return tflm_train.fit(
            trainer,
            train.labelled(),
            held_out.labelled(),
            epochs=EPOCHS,
            batch_size=BATCH,
            seed=seed,
            on_batch=view.batch,
            on_epoch=view.epoch,
        )


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
    rotated_test = rotate(test.x, DEGREES)

    out.rule("1. convert")
    raw = convert(upright.x[::8])
    (args.output / "model.tflite").write_bytes(raw)
    before = tflm_train.Interpreter(raw)
    out.print(f"int8 model: {len(raw)} bytes, {args.output / 'model.tflite'}")
    upright_accuracy = evaluate(before, test.x, test.y)["accuracy"]
    start = evaluate(before, rotated_test, test.y)["accuracy"]
    out.print(f"accuracy on {len(test)} test digits: upright {upright_accuracy:.3f}, "
              f"rotated {start:.3f}")  # fmt: skip

    out.rule("2. fine-tune with forward passes alone (ZO, QScheduler)")
    zo = []
    for seed in range(args.seeds):
        train, held_out = split(rotated, 0.2, seed=seed)
        result = train_zo(raw, train, held_out, seed=seed, out=out)
        tuned = tflm_train.Interpreter(result.best_model)
        zo.append(evaluate(tuned, rotated_test, test.y)["accuracy"])
        if seed == 0:
            tuned.save(args.output / "model_zo.tflite")
            _report.plot_history(
                result.history,
                args.output / "demo.png",
                title=f"digits rotated {DEGREES}°: ZO on the last layer",
                reference={"before": start},
            )
    out.print(f"saved {args.output / 'model_zo.tflite'} and {args.output / 'demo.png'}")
    spread = f" (std {np.std(zo):.3f} over {len(zo)} seeds)" if len(zo) > 1 else ""
    sys.stdout.write(
        f"demo: rotated-{DEGREES} accuracy before={start:.3f} zo={np.mean(zo):.3f}{spread}\n"
    )


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
