"""Pre-train the small CNN of the demo on upright MNIST digits and save it as `.h5`.

  python examples/pretrain_mnist_cnn.py --output examples/models/mnist_cnn.h5

Uses the training part of the built-in digits (4,000 images); the demo evaluates on the test part
(1,000 others). Inputs are pixels / 255.
"""

import argparse

import keras

from tflm_train.data import load_dataset


def make_model():
    """Two convolutions, 128 features, 10 classes: 103,018 parameters."""
    return keras.Sequential(
        [
            keras.Input((28, 28, 1), name="image"),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu", name="conv1"),
            keras.layers.MaxPooling2D(name="pool1"),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu", name="conv2"),
            keras.layers.MaxPooling2D(name="pool2"),
            keras.layers.Flatten(name="flatten"),
            keras.layers.Dense(128, activation="relu", name="features"),
            keras.layers.Dropout(0.3, name="dropout"),
            keras.layers.Dense(10, name="logits"),
        ],
        name="mnist_cnn",
    )


def main():
    """Train and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    keras.utils.set_random_seed(args.seed)
    train, test = load_dataset("digits", part="train"), load_dataset("digits", part="test")
    model = make_model()
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train.x / 255.0, train.y, batch_size=64, epochs=args.epochs, verbose=2)
    _, accuracy = model.evaluate(test.x / 255.0, test.y, verbose=0)
    model.save(args.output, include_optimizer=False)
    print(f"upright accuracy on {len(test)} held-out digits: {accuracy:.4f}")


if __name__ == "__main__":
    main()
