"""Keras models to fully-int8 TFLite flatbuffers; reached through `tflm_train.convert`."""

from converters.pipeline import convert

__all__ = ["convert"]
