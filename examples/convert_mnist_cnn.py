"""Convert the demo's CNN with room for its last layer to learn; the result is shipped beside it.

python examples/convert_mnist_cnn.py --output examples/models/mnist_cnn_int8.tflite
"""

import argparse
from pathlib import Path

import tflm_train
from converters.atomic import write_bytes_atomically
from tflm_train.data import load_dataset

MODEL = Path(__file__).parent / "models" / "mnist_cnn.h5"


def convert(calibration):
    """Bytes of the int8 model; weights of the last layer may grow fourfold, its logits by half."""
    return tflm_train.convert(
        str(MODEL),
        calibration=calibration,
        normalization={"scale": 1 / 255, "offset": 0.0},
        weight_headroom=4.0,
        logit_headroom=1.5,
        labels=[str(digit) for digit in range(10)],
    )


def main():
    """Convert with every eighth digit of the training part as calibration data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    write_bytes_atomically(args.output, convert(load_dataset("digits").x[::8]))


if __name__ == "__main__":
    main()
