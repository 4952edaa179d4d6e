"""Pre-train the reference nets of the integer-only methods on upright MNIST and save them as `.h5`.

  python examples/pretrain_tiny_cnn.py --arch tiny_cnn --output examples/models/tiny_cnn.h5
  python examples/pretrain_tiny_cnn.py --arch tiny_cnn_s2 --output examples/models/tiny_cnn_s2.h5
  python examples/pretrain_tiny_cnn.py --arch vgg11 --width 0.25 --data cifar10.npz --output v.h5

`tiny_cnn` and `tiny_cnn_s2` have 52,092 weights each and no biases, as the PRIOT paper's memory
figures ask for. Trained on MNIST train images 0 to 49,999: the other 10,000 are where the rotated
training and validation images come from, so training on them is a transfer to new images. Without a
full MNIST file the built-in digits are used, and the script says so.
"""

import argparse

import keras
import numpy as np

from tflm_train.priot.datasets import cifar10_source, mnist_source


def make_model(arch, *, width=1.0):
    """`tiny_cnn` (pools), `tiny_cnn_s2` (strides, no pools) or `vgg11` for 32x32x3 images."""
    layers = keras.layers
    conv = {"kernel_size": 3, "padding": "same", "activation": "relu", "use_bias": False}
    if arch == "vgg11":
        body = [keras.Input((32, 32, 3), name="image")]
        number = 0
        for step in (64, "p", 128, "p", 256, 256, "p", 512, 512, "p", 512, 512, "p"):
            if step == "p":
                body.append(layers.MaxPooling2D(name=f"pool{number}"))
            else:
                number += 1
                body.append(layers.Conv2D(int(step * width), name=f"conv{number}",
                                          kernel_initializer="he_normal", **conv))  # fmt: skip
        body += [layers.Flatten(name="flatten"), layers.Dropout(0.3, name="dropout")]
        body += [layers.Dense(10, use_bias=False, name="logits")]
        return keras.Sequential(body, name=arch)
    strides = {"tiny_cnn": 1, "tiny_cnn_s2": 2}[arch]
    pools = strides == 1
    return keras.Sequential(
        [
            keras.Input((28, 28, 1), name="image"),
            layers.Conv2D(16, strides=strides, name="conv1", **conv),
            *([layers.MaxPooling2D(name="pool1")] if pools else []),
            layers.Conv2D(32, strides=strides, name="conv2", **conv),
            *([layers.MaxPooling2D(name="pool2")] if pools else []),
            layers.Flatten(name="flatten"),
            layers.Dropout(0.3, name="dropout"),
            layers.Dense(30, activation="relu", use_bias=False, name="dense1"),
            layers.Dense(10, use_bias=False, name="logits"),
        ],
        name=arch,
    )


def flipped(x, rng):
    """The images, every other one mirrored at random."""
    turn = rng.random(len(x)) < 0.5
    x = x.copy()
    x[turn] = x[turn, :, ::-1]
    return x


def main():
    """Train and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="tiny_cnn", choices=["tiny_cnn", "tiny_cnn_s2", "vgg11"])
    parser.add_argument("--data", help="an .npz with x_train, y_train, x_test, y_test")
    parser.add_argument("--output", required=True)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--width", type=float, default=1.0, help="vgg11: factor of its channels")
    parser.add_argument("--limit", type=int, help="use this many images")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    keras.utils.set_random_seed(args.seed)
    vgg = args.arch == "vgg11"
    source = cifar10_source(args.data) if vgg else mnist_source(args.data)
    count = min(source.pretraining, args.limit or source.pretraining)
    # The device feeds x >> 1 with scale 2^-7: the same numbers as x / 256.
    x = (source.x_train[:count] / 256.0).astype(np.float32)
    model = make_model(args.arch, width=args.width)
    steps = args.epochs * -(-count // 128)
    rate = keras.optimizers.schedules.CosineDecay(1e-3 if vgg else 2e-3, steps)
    model.compile(
        keras.optimizers.Adam(rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    y = source.y_train[:count]
    if vgg:
        rng = np.random.default_rng(args.seed)
        for epoch in range(args.epochs):
            model.fit(flipped(x, rng), y, batch_size=128, initial_epoch=epoch, epochs=epoch + 1,
                      verbose=2)  # fmt: skip
    else:
        model.fit(x, y, batch_size=128, epochs=args.epochs, verbose=2)
    test = (source.x_test / 256.0).astype(np.float32)
    _, accuracy = model.evaluate(test, source.y_test, verbose=0)
    model.save(args.output, include_optimizer=False)
    print(f"{source.name}: upright accuracy on {len(test)} test images: {accuracy:.4f}")


if __name__ == "__main__":
    main()
