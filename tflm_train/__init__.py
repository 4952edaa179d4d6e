"""Train fully-int8 TFLite models with the same bits on host and microcontroller."""
