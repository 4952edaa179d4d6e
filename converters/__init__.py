"""Keras models to fully-int8 TFLite flatbuffers; reached through `tflm_train.convert`."""

from converters.pipeline import convert
from converters.warm_up import three_stage

__all__ = ["convert", "three_stage"]
