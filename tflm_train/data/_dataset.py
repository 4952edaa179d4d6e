"""Samples with labels, checked once."""

import dataclasses

import numpy as np

from converters.errors import DataError
from tflm_train import _native

_SPLIT_STREAM = 2**32 - 3


@dataclasses.dataclass(frozen=True)
class Dataset:
    """x: array [n, ...] of any real dtype; y: int32 labels [n] or None; classes: names or ()."""

    x: np.ndarray
    y: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self):
        if len(self.x) == 0:
            raise DataError(f"Expected at least one sample in {self.name or 'the data'}, got none")
        if self.y is not None and len(self.y) != len(self.x):
            raise DataError(
                f"Expected as many labels as samples in {self.name}, got {len(self.y)} labels and "
                f"{len(self.x)} samples"
            )

    def __len__(self):
        return len(self.x)

    def take(self, indices):
        """The samples at `indices` as a new data set."""
        y = None if self.y is None else self.y[indices]
        return dataclasses.replace(self, x=self.x[indices], y=y)

    def labelled(self):
        """(x, y).

        Raises:
          DataError: there are no labels.
        """
        if self.y is None:
            raise DataError(
                f"Expected labels in {self.name or 'the data'}, got none: store them as `y`"
            )
        return self.x, self.y


def split(dataset, fraction, *, seed=0):
    """(rest, held out): `fraction` of the samples set apart, the same ones for one seed.

    Args:
      dataset: a `Dataset`.
      fraction: of the second part, above 0 and below 1; at least one sample stays in each part.
      seed: 0 to 2^32 - 1.

    Raises:
      DataError: fewer than two samples.
      ValueError: a fraction out of its range.

    Example:
      >>> import numpy as np
      >>> rest, held_out = split(Dataset(np.zeros((10, 4))), 0.2)
      >>> len(rest), len(held_out)
      (8, 2)
    """
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"Expected a fraction between 0 and 1, got {fraction}")
    count = len(dataset)
    if count < 2:
        raise DataError(f"Expected 2 samples or more to split, got {count}")
    held = min(count - 1, max(1, round(count * fraction)))
    order = np.argsort(_native.rng_words(seed, 0, _SPLIT_STREAM, 0, count), kind="stable")
    return dataset.take(np.sort(order[held:])), dataset.take(np.sort(order[:held]))
