"""One integer-only training step against TensorFlow's float step: same net, same images, batch 1.

  python -m benchmarks priot_step [--arch tiny_cnn] [--rounds 40]

TensorFlow takes SGD in three forms: Keras `train_on_batch`, `tf.function` around a gradient tape,
and the same compiled by XLA. Ours trains rotated images from the pre-trained state; an image
without an error ends its step early, so a block of images that all leave one is timed too. All
blocks run in turn; ratios are between the medians and between the fastest blocks of one run.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks._timing import interleaved, table

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models"
OWN_STEPS = 128
FLOAT_STEPS = {"Keras train_on_batch": 5, "tf.function": 20, "tf.function, XLA": 20}


def float_blocks(path, images, labels):
    """{form: function that does FLOAT_STEPS[form] steps}."""
    import keras
    import tensorflow as tf

    x = tf.constant((images / 256.0).astype(np.float32))
    y = tf.constant(labels.astype(np.int32))
    numbers = [tf.constant(i) for i in range(len(labels))]
    model = keras.models.load_model(path, compile=False)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-3), loss)
    steps = {"Keras train_on_batch": lambda i: model.train_on_batch(x[i : i + 1], y[i : i + 1])}
    for name, compiled in (("tf.function", False), ("tf.function, XLA", True)):
        step = _tape_step(tf, keras.models.load_model(path, compile=False), x, y, compiled)
        steps[name] = lambda i, step=step: step(numbers[i])

    def block(name):
        for i in range(FLOAT_STEPS[name]):
            steps[name](i)

    return {name: lambda name=name: block(name) for name in steps}


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


def own_blocks(path, source, transfer):
    """{what: function that does OWN_STEPS steps from the pre-trained state}."""
    from tflm_train.priot import PriotTrainer
    from tflm_train.priot._reproduce import convert_all

    blocks = {}
    data, y = [transfer.x_train], transfer.y_train
    for name, raw in convert_all(path, source, names=["priot", "niti"]).items():
        trainer = PriotTrainer(raw)
        state = trainer.state_dict()
        rows = [trainer.train_chunk(data, y, np.array([i]), 1)[0] for i in range(len(y))]
        hard = np.array([i for i, row in enumerate(rows) if not row["zero_error"]])
        for what, order in (("", np.arange(OWN_STEPS)), (", with an error", hard[:OWN_STEPS])):
            order = np.resize(order, OWN_STEPS)

            def block(trainer=trainer, state=state, order=order):
                trainer.load_state_dict(state)
                trainer.train_chunk(data, y, order, 1)

            blocks[name + what] = block
    return blocks


def main(argv=None):
    """Measure and print."""
    from tflm_train.priot.datasets import mnist_source, rotate, transfer_set

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="tiny_cnn", choices=["tiny_cnn", "tiny_cnn_s2"])
    parser.add_argument("--data", help="an .npz with x_train, y_train, x_test, y_test")
    parser.add_argument("--rounds", type=int, default=40)
    args = parser.parse_args(argv)
    source = mnist_source(args.data)
    path = MODELS / f"{args.arch}.h5"
    blocks = own_blocks(path, source, transfer_set(source, 30))
    images = rotate(source.x_train[:32], 30)
    blocks |= float_blocks(path, images, source.y_train[:32])
    found = {}
    for name, times in interleaved(blocks, rounds=args.rounds, seconds=120).items():
        steps = FLOAT_STEPS.get(name, OWN_STEPS)
        found[name] = {k: times[k] / steps * 1e6 for k in ("median", "fastest")}
    rows = []
    for name, times in found.items():
        cells = [name, f"{times['median']:.1f}", f"{times['fastest']:.1f}"]
        if name not in FLOAT_STEPS:
            for form in FLOAT_STEPS:
                ratios = [found[form][k] / times[k] for k in ("median", "fastest")]
                cells.append(f"{ratios[0]:.1f} / {ratios[1]:.1f}")
        rows.append(cells + [""] * (6 - len(cells)))
    header = ("step", "us, median", "us, fastest", "x Keras", "x tf.function", "x XLA")
    table(f"{args.arch} on {source.name}, batch 1 (ratio of medians / of fastest)", rows, header)
    return found


if __name__ == "__main__":
    main()
