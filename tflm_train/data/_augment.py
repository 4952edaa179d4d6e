"""Random flips and crops, the same for one (seed, epoch, sample), so a resumed run repeats them."""

import numpy as np

from tflm_train import _native

_STREAM = 2**32 - 4


def flips_and_crops(*, flip=True, pad=2, seed=0):
    """An `augment(x, indices, epoch)` for `fit`: horizontal flips, and shifts by up to `pad`.

    A shift pads with the image's own border and crops back to size.

    Args:
      flip: mirror half of the images left to right.
      pad: largest shift in pixels, 0 or more.
      seed: 0 to 2^32 - 1.

    Raises:
      ValueError: a negative pad.

    Example:
      >>> import numpy as np
      >>> augment = flips_and_crops(pad=0)
      >>> augment(np.zeros((2, 8, 8, 1), np.uint8), np.arange(2), 0).shape
      (2, 8, 8, 1)
    """
    if pad < 0:
        raise ValueError(f"Expected pad of 0 or more, got {pad}")

    def augment(x, indices, epoch):
        words = np.array(
            [_native.rng_words(seed, epoch, _STREAM, int(i), 1)[0] for i in indices], np.uint32
        )
        out = np.empty_like(x)
        width = 2 * pad + 1
        for n, word in enumerate(words.tolist()):
            image = np.pad(x[n], ((pad, pad), (pad, pad), (0, 0)), mode="edge")
            dy, dx = (word >> 1) % width, (word >> 16) % width
            image = image[dy : dy + x.shape[1], dx : dx + x.shape[2]]
            out[n] = image[:, ::-1] if flip and word & 1 else image
        return out

    return augment
