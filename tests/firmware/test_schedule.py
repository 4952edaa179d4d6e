"""The device's q schedule and zeroth-order step against the host's."""

import ctypes
import subprocess
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tflm_train
from converters.c_source_graph import GraphSource
from converters.errors import UnsupportedModelError
from converters.flatbuffer import read_model
from tflm_train._firmware.build import HostModel, write_sources
from tflm_train._firmware.targets import micro_ops_root
from tflm_train._firmware.zo_settings import zo_settings
from tflm_train.zo import ZoTrainer, qscheduler

_GLUE = """
#include "micro_ops/trainer/qscheduler.h"
using namespace tflm_train;
static QSchedulerState state;
extern "C" int32_t schedule(const int32_t* levels, int32_t count, int32_t patience, int64_t tau,
                            int32_t maximize, int32_t start, int64_t metric) {
  if (start) state = QSchedulerState{0, 0, 0, 0};
  const QSchedulerConfig config = {levels, count, patience, tau, maximize != 0};
  return QSchedulerUpdate(config, metric, &state);
}
"""


@pytest.fixture(scope="module")
def device_schedule(tmp_path_factory):
    """`qscheduler.cc` for this machine."""
    folder, root = tmp_path_factory.mktemp("schedule"), micro_ops_root()
    (folder / "glue.cc").write_text(_GLUE)
    library = folder / "schedule.so"
    subprocess.run(
        ["c++", "-std=c++17", "-shared", "-fPIC", f"-I{root}", str(folder / "glue.cc"),
         str(root / "micro_ops/trainer/qscheduler.cc"), "-o", str(library)],
        check=True,
    )  # fmt: skip
    function = ctypes.CDLL(str(library)).schedule
    function.argtypes = [ctypes.c_void_p, *[ctypes.c_int32] * 2, ctypes.c_int64,
                         *[ctypes.c_int32] * 2, ctypes.c_int64]  # fmt: skip
    return function


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.integers(1, 4),
    st.integers(0, 5),
    st.sampled_from(["loss", "accuracy"]),
)
def test_both_schedulers_agree_on_integer_metrics(device_schedule, metrics, patience, tau, metric):
    host = qscheduler(q_init=4, q_max=64, patience=patience, tau=tau, metric=metric)
    levels = np.array([4, 8, 16, 32, 64], np.int32)
    state = host.init()
    for i, value in enumerate(metrics):
        state = host.update(float(value), state)
        q = device_schedule(
            levels.ctypes.data, 5, patience, tau, int(metric == "accuracy"), int(i == 0), value
        )
        assert q == state.q


OPTIONS = {
    "one_sided": dict(scheduler=dict(q_init=2, q_max=8, patience=1, tau=0), lr_per_q="sqrt"),
    "leave_one_out": dict(q=4, estimator="leave_one_out", momentum=0.0),
    "two_sided_raw": dict(q=3, estimator="two_sided", normalize="raw", lr=2.0),
    "shadow_cosine": dict(q=4, update="int16_shadow", decay="cosine", total_steps=20),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_device_step_equals_the_host_trainers(build_folder, mnist_int8, digits, name):
    options = {"seed": 11, **OPTIONS[name]}
    batch, steps = 3, 12
    interpreter = tflm_train.Interpreter(mnist_int8)
    zo = zo_settings(interpreter, batch=batch, **options)
    source = GraphSource(read_model(mnist_int8), zo=zo, logits=interpreter.logits_spec.index)
    folder = build_folder / f"zo_{name}"
    write_sources(source.files(), folder)
    model = HostModel(folder)
    scheduler = options.pop("scheduler", None)
    trainer = ZoTrainer(
        interpreter, scheduler=qscheduler(**scheduler) if scheduler else None, **options
    )
    x, y = digits[0].x[: batch * steps], digits[0].y[: batch * steps].astype(np.int32)
    codes = interpreter.quantize(x)[0].reshape(len(x), -1)
    features = trainer.prepare(x)
    for step in range(steps):
        part = slice(step * batch, (step + 1) * batch)
        trainer.train_batch([f[part] for f in features], y[part])
        result, loss, _ = model.train(codes[part], y[part])
        assert result == 1
        assert model.crc() == _crc(interpreter)
        if scheduler and step % 3 == 2:
            trainer.on_epoch_end({"validation_loss": float(loss)})
            assert model.end_epoch(loss) == trainer.q
    np.testing.assert_array_equal(
        [model.infer(c) for c in codes[:5]], interpreter.logits_int8(x[:5])
    )


def _crc(interpreter):
    crc = 0
    for item in interpreter.trainable:
        crc = zlib.crc32(interpreter.suffix.read(item.tensor).tobytes(), crc)
    return crc


def test_options_that_need_a_float_unit_are_refused(mnist_int8):
    interpreter = tflm_train.Interpreter(mnist_int8)
    with pytest.raises(UnsupportedModelError, match="float_shadow"):
        zo_settings(interpreter, update="float_shadow")
    with pytest.raises(UnsupportedModelError, match="whole tau"):
        zo_settings(interpreter, scheduler=dict(q_init=4, tau=0.5))
    with pytest.raises(UnsupportedModelError, match="smoothing 0"):
        zo_settings(interpreter, scheduler=dict(q_init=4, smoothing=0.5))
