"""One integer-only training step against TensorFlow's float step: same net, same images, batch 1.

  python -m benchmarks priot_step [--arch tiny_cnn] [--steps 300]

TensorFlow's step is the fastest of three forms of SGD: Keras `train_on_batch`, `tf.function` around
a gradient tape, and the same compiled by XLA. Ours trains the same images; samples without an
error end early, so a step over samples that all have one is given too. Ratios come from one run.
"""

import argparse
import time
from pathlib import Path

import numpy as np

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models"


def _seconds_per_call(call, count, repeats=3):
    """Best mean of `repeats` blocks: other processes only ever add time."""
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        for i in range(count):
            call(i)
        best = min(best, (time.perf_counter() - began) / count)
    return best


def tensorflow_steps(path, images, labels, count):
    """{form: seconds a step} of float SGD at batch 1."""
    import keras
    import tensorflow as tf

    x = tf.constant((images / 256.0).astype(np.float32))
    y = tf.constant(labels.astype(np.int32))
    result = {}
    model = keras.models.load_model(path, compile=False)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-3), loss)
    for i in range(3):
        model.train_on_batch(x[i : i + 1], y[i : i + 1])
    result["keras train_on_batch"] = _seconds_per_call(
        lambda i: model.train_on_batch(x[i : i + 1], y[i : i + 1]), max(count // 10, 5)
    )
    numbers = [tf.constant(i) for i in range(count)]
    for name, compiled in (("tf.function", False), ("tf.function, XLA", True)):
        model = keras.models.load_model(path, compile=False)
        step = _tape_step(tf, model, x, y, compiled)
        for i in range(3):
            step(numbers[i])
        result[name] = _seconds_per_call(lambda i, n=numbers, s=step: s(n[i]), count)
    return result


def _tape_step(tf, model, x, y, compiled):
    variables = model.trainable_variables

    @tf.function(jit_compile=compiled, autograph=False)
    def step(i):
        with tf.GradientTape() as tape:
            logits = model(x[i : i + 1], training=False)
            value = tf.nn.sparse_softmax_cross_entropy_with_logits(y[i : i + 1], logits)
        for v, g in zip(variables, tape.gradient(value, variables), strict=True):
            v.assign_sub(1e-3 * g)

    return step


def own_steps(path, source, transfer, count):
    """{what: seconds a step} of the native trainer."""
    from tflm_train.priot import PriotTrainer
    from tflm_train.priot._reproduce import convert_all

    result = {}
    models = convert_all(path, source, names=["priot", "niti"])
    for name in models:
        trainer = PriotTrainer(models[name])
        data, y = [transfer.x_train], transfer.y_train
        order = np.arange(count)
        result[name] = (
            _seconds_per_call(
                lambda i, t=trainer, d=data, y=y, o=order: t.train_chunk(d, y, o, 1), 1
            )
            / count
        )
        trainer = PriotTrainer(models[name])
        rows = [trainer.train_chunk(data, y, np.array([i]), 1)[0] for i in range(len(y))]
        hard = np.array([i for i, row in enumerate(rows) if not row["zero_error"]])
        trainer = PriotTrainer(models[name])
        each = []
        for i in hard[:count]:
            began = time.perf_counter()
            row = trainer.train_chunk(data, y, np.array([i]), 1)[0]
            seconds = time.perf_counter() - began
            if not row["zero_error"]:
                each.append(seconds)
        result[f"{name}, samples with an error, one call each"] = float(np.median(each))
    return result


def main(argv=None):
    """Measure and print."""
    from tflm_train.priot.datasets import mnist_source, rotate, transfer_set

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="tiny_cnn", choices=["tiny_cnn", "tiny_cnn_s2"])
    parser.add_argument("--data", help="an .npz with x_train, y_train, x_test, y_test")
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args(argv)
    source = mnist_source(args.data)
    transfer = transfer_set(source, 30)
    images = rotate(source.x_train[: args.steps], 30)
    path = MODELS / f"{args.arch}.h5"
    own = own_steps(path, source, transfer, min(args.steps, len(transfer.y_train)))
    floats = tensorflow_steps(path, images, source.y_train[: args.steps], args.steps)
    fastest = min(floats.values())
    print(f"{args.arch} on {source.name}, batch 1")
    for name, seconds in floats.items():
        print(f"  TensorFlow, {name}: {1e6 * seconds:.0f} us a step")
    for name, seconds in own.items():
        print(f"  {name}: {1e6 * seconds:.1f} us a step, {fastest / seconds:.1f} x as fast as "
              "the fastest float step")  # fmt: skip
    return {"tensorflow": floats, "own": own}


if __name__ == "__main__":
    main()
