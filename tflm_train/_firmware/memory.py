"""RAM and flash of an image before it is built."""

import dataclasses

import numpy as np

from tflm_train._firmware.targets import find_target

STACK = 4096
_TABLES = 4 * (257 + 257 + 129)
_SMALL_CONSTANTS = 400  # shapes, vectors, schedules
_CHUNK = 1024

# Bytes of code that Debian's arm-none-eabi-gcc 12.2 makes at -O2 of kernels, model and the serving
# application; measured, and held against linked images by a test.
_CODE = {
    ("rp2040", "infer-chain"): 5_100,
    ("rp2040", "priot"): 17_600,
    ("rp2040", "priot-s"): 17_600,
    ("rp2040", "niti"): 14_900,
    ("rp2040", "infer"): 3_600,
    ("rp2040", "zo"): 11_200,
    ("cortex-m55", "infer-chain"): 6_800,
    ("cortex-m55", "priot"): 21_000,
    ("cortex-m55", "priot-s"): 21_000,
    ("cortex-m55", "niti"): 16_100,
    ("cortex-m55", "infer"): 3_200,
    ("cortex-m55", "zo"): 9_500,
}


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes by purpose.

    Attributes:
      arena: activations, errors and scratch.
      trained: scores or weights that training changes.
      momentum: and shadows of the zeroth-order trainer.
      features: outputs of the frozen layers of a batch.
      application: serial buffers and samples of the serving application.
      stack: reserved.
      constants: in flash.
      code: in flash, an estimate.
    """

    arena: int
    trained: int
    momentum: int
    features: int
    application: int
    stack: int
    constants: int
    code: int

    @property
    def ram(self):
        """All of RAM."""
        return (self.arena + self.trained + self.momentum + self.features + self.application
                + self.stack)  # fmt: skip

    @property
    def flash(self):
        """All of flash."""
        return self.constants + self.code


def plan_memory(source, target):
    """The `Memory` of an image of `source` for `target`."""
    files = source.files()  # fills the constants and the state's size
    inputs, batch = _macro(files, "MODEL_INPUT_SIZE"), _macro(files, "MODEL_MAX_BATCH")
    trained = momentum = features = 0
    constants = _SMALL_CONSTANTS + sum(
        -(-np.asarray(v).nbytes // 16) * 16 for v in source.constants.values()
    )
    if hasattr(source, "chain"):
        kind = source.chain.method if source.trains else "infer-chain"
        trained = source.state_bytes if source.trains else 16
    else:
        kind = "zo" if source.trains else "infer"
        features = batch * source.feature_bytes
        if source.trains:
            constants += _TABLES
            trained = source.state_bytes - source.extra_bytes + source.result_bytes
            momentum = source.extra_bytes
    application = max(6 + inputs, _CHUNK + 4)
    if source.trains:
        application += batch * (inputs + 4)
    return Memory(
        arena=source.arena_bytes,
        trained=trained,
        momentum=momentum,
        features=features,
        application=application,
        stack=STACK,
        constants=constants,
        code=_CODE.get((find_target(target).name, kind), 0),
    )


def _macro(files, name):
    for line in files["model.h"].splitlines():
        parts = line.split()
        if parts[:2] == ["#define", name]:
            return int(parts[2])
    raise KeyError(name)
