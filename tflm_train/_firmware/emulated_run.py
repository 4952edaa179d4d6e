"""One epoch on an emulated board beside the same epoch on the host."""

import numpy as np

from converters.errors import TrainingError
from converters.flatbuffer import load_bytes
from tflm_train._firmware.build import build_image, write_sources
from tflm_train._firmware.count import counting_plugin
from tflm_train._firmware.emulators import Emulator
from tflm_train._firmware.host_twin import host_twin
from tflm_train._firmware.source import make_source


def train_emulated(model, target, train, held_out, *, folder, checks=8, progress=None, options):
    """Train one epoch and hold every step against the host.

    Args:
      model: bytes or path of a `.tflite`.
      target: `rp2040` or `cortex-m55`.
      train: (x, y), raw data of the model's kind.
      held_out: (x, y) for the accuracy points.
      folder: for sources and image.
      checks: accuracy points over the epoch, at least 1.
      progress: called with lines of text, or None.
      options: keyword arguments of `make_source`.

    Returns:
      A dict: `title`, `steps`, `counts` (cycles or instructions of each step), `at`, `accuracy`,
      `host_accuracy` and the `image` sizes.

    Raises:
      TrainingError: a difference between the two.
    """
    raw = load_bytes(model)
    source = make_source(raw, target, **options)
    write_sources(source.files(), folder)
    image = build_image(folder, target)
    twin = host_twin(raw, source, **options)
    batch = options.get("batch", 1)
    x, y = twin.codes(train[0]), np.asarray(train[1], np.int32)
    test_x, test_y = twin.codes(held_out[0]), np.asarray(held_out[1], np.int32)
    steps = len(x) // batch
    stops = sorted({round(steps * i / max(1, checks)) for i in range(1, checks + 1)} | {0})
    plugin = counting_plugin(image.path) if target == "cortex-m55" else None
    report = {
        "title": f"{twin.method} on an emulated {target}",
        "steps": steps, "counts": [], "at": [], "accuracy": [], "host_accuracy": [],
        "image": {"text": image.text, "rodata": image.rodata, "ram": image.ram},
    }  # fmt: skip
    with Emulator(image.path, target, plugin=plugin, timeout=600) as emulator:
        client = emulator.client
        for step in range(steps + 1):
            if step in stops:
                _check(client, twin, test_x, test_y, step, report)
                if progress:
                    progress(f"step {step}/{steps}: accuracy {report['accuracy'][-1]:.1%}")
            if step == steps:
                break
            part = slice(step * batch, (step + 1) * batch)
            want = twin.step(x[part], y[part])
            emulator.forget_counts()
            _, _, logits = client.train(x[part], y[part])
            report["counts"].append(emulator.last_count())
            if want is not None and not np.array_equal(want, logits):
                raise TrainingError(f"step {step}: Expected logits {want}, got {logits}")
    return report


def _check(client, twin, x, y, step, report):
    crc = client.crc()
    if crc != twin.crc():
        raise TrainingError(f"step {step}: Expected CRC {twin.crc():08x}, got {crc:08x}")
    device = np.array([client.infer(sample) for sample in x])
    host = twin.infer(x)
    if not np.array_equal(device, host):
        raise TrainingError(f"step {step}: Expected the host's logits, got others")
    report["at"].append(step)
    report["accuracy"].append(float(np.mean(device.argmax(1) == y)))
    report["host_accuracy"].append(float(np.mean(host.argmax(1) == y)))
