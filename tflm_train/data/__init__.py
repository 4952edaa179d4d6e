"""Data sets by one word: a `.npz`, a `.csv`, a folder of images, or a built-in name."""

from tflm_train.data._augment import flips_and_crops
from tflm_train.data._dataset import Dataset, split
from tflm_train.data._load import load_dataset
from tflm_train.data._rotate import rotate

__all__ = ["Dataset", "flips_and_crops", "load_dataset", "rotate", "split"]
