"""The device's zeroth-order trainer over a real MicroInterpreter has the host trainer's bits."""

import zlib

import numpy as np
import pytest
from tflm_programs import build, c_array, fields, model_array, need, run

from tflm_train import Interpreter
from tflm_train.zo import ZoTrainer, qscheduler

BOARDS = ["rp2040", "cortex-m55"]
REAL_BOARDS = ["tflm-rp2040", "tflm-m55-reference", "tflm-m55-cmsis-nn-size"]
BATCH, SAMPLES = 4, 12
OK, NO_ENTRY, MEMORY, STALE, HEADROOM, OPTIONS = 0, 1, 3, 5, 6, 8

# Options of the host, of the device, of the conversion.
FORMS = {
    "last layer": ({"q": 4, "momentum": 0.0, "lr": 0.5}, "o->q = 4; o->lr_q16 = 32768;", "last"),
    "all layers, momentum": (
        {"q": 3, "momentum": 0.5, "lr": 0.25, "seed": 9},
        "o->q = 3; o->beta_q8 = 128; o->lr_q16 = 16384; o->seed = 9;",
        "all",
    ),
    "shadow, two-sided, cosine": (
        {"q": 2, "momentum": 0.9, "lr": 0.5, "estimator": "two_sided", "update": "int16_shadow",
         "decay": "cosine", "total_steps": 60},
        "o->q = 2; o->beta_q8 = 230; o->lr_q16 = 32768; o->estimator = ZoEstimator::kTwoSided;"
        "o->int16_shadow = true; o->total_steps = 60;",
        "last:2",
    ),
    "biases, leave-one-out": (
        {"q": 4, "momentum": 0.0, "lr": 0.5, "estimator": "leave_one_out"},
        "o->q = 4; o->lr_q16 = 32768; o->estimator = ZoEstimator::kLeaveOneOut;",
        "bias:last:2",
    ),
    "scheduler": ({"q": 2, "momentum": 0.0, "lr": 0.5}, "o->lr_q16 = 32768;", "last"),
}  # fmt: skip


@pytest.fixture(scope="module")
def models():
    """Small int8 models by kind and choice of trainable layers, made once."""
    keras = pytest.importorskip("keras")
    from converters import convert

    layers = keras.layers

    def build_model(dense):
        head = [layers.Conv2D(4, 3, strides=2, activation="relu", name="first"), layers.Flatten()]
        tail = [layers.Dense(12, activation="relu", name="middle"), layers.Dense(6, name="last")]
        shape = (64,) if dense else (8, 8, 1)
        return keras.Sequential([keras.Input(shape), *([] if dense else head), *tail])

    made = {}

    def get(trainable, *, dense=False, headroom=2):
        key = trainable, dense, headroom
        if key not in made:
            keras.utils.set_random_seed(0)
            model = build_model(dense)
            rng = np.random.default_rng(0)
            for layer in model.layers:
                if layer.weights:
                    layer.weights[1].assign(rng.normal(0, 0.2, layer.weights[1].shape))
            x = rng.random((64, *model.input_shape[1:])).astype(np.float32)
            made[key] = convert(model, calibration=x, trainable=trainable, weight_headroom=headroom)
        return made[key]

    return get


def data():
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (SAMPLES, 8, 8, 1)).astype(np.int8)
    return x, rng.integers(0, 6, SAMPLES).astype(np.int32)


def header_of(raw, setting, *, steps=50, levels=(), memory=16384, less=False, arena=24576):
    x, y = data()
    level = ",".join(map(str, levels)) or "0"
    return (
        '#include "micro_ops/tflm/zo_trainer.h"\n'
        + model_array(raw)
        + c_array("kSamples", x.reshape(SAMPLES, -1), "int8_t")
        + c_array("kLabels", y, "int32_t")
        + f"const int32_t kLevels[] = {{{level}}};\nconstexpr int32_t kLevelCount = {len(levels)};"
        + f"constexpr int32_t kSteps = {steps}, kBatch = {BATCH}, kSampleCount = {SAMPLES};\n"
        + f"constexpr size_t kArenaBytes = {arena}, kMemoryBytes = {memory};\n"
        + f"constexpr bool kMemoryLess = {str(less).lower()};\n"
        + "inline void kSetOptions(tflm_train::ZoTrainerOptions* o) {\n"
        + "  using namespace tflm_train;  // NOLINT\n"
        + f"  (void)o; {setting}\n}}\n"
    )


class Twin:
    """ZoTrainer that answers as tests/tflm/zo_steps.cc prints."""

    def __init__(self, raw, options, scheduler=None):
        interpreter = Interpreter(raw)
        self.trainer = ZoTrainer(interpreter, scheduler=scheduler, **options)
        self.x, self.y = data()
        self.x = self.x.reshape(SAMPLES, *interpreter.input_specs[0].shape[1:])
        self.features = self.trainer.prepare(self.x)

    def crc(self):
        crc = 0
        for values in self.trainer._weights.read():
            crc = zlib.crc32(np.ascontiguousarray(values).tobytes(), crc)
        return crc

    def step(self, i):
        order = [(i * BATCH + k) % SAMPLES for k in range(BATCH)]
        part = [f[order] for f in self.features]
        trainer = self.trainer
        q = trainer.q
        base, plus, _ = trainer._losses(part, self.y[order], q)
        trainer.train_batch(part, self.y[order])
        total = base if base is not None else sum(int(v) for v in plus)
        coefficients = np.ascontiguousarray(trainer.log._steps[i], np.int32)
        return [0, q, int(total), zlib.crc32(coefficients.tobytes()), self.crc(),
                trainer._saturated]  # fmt: skip

    def epoch(self):
        trainer = self.trainer
        logits = trainer._engine.run(self.features)[0]
        total = trainer._loss.total(logits, self.y)
        right = int(np.sum(logits.reshape(SAMPLES, -1).argmax(1) == self.y))
        if trainer._scheduler is not None:
            trainer._scheduler_state = trainer._scheduler.update(total, trainer._scheduler_state)
        return [total, right, trainer.q]


def steps_equal(machine, cache, models, form, *, setting="", stale=0, steps=50, defines=()):
    options, device, trainable = FORMS[form]
    raw = models(trainable, dense=machine.tflm is None)
    levels, scheduler = (), None
    if form == "scheduler":
        levels = (2, 4, 8)
        scheduler = qscheduler(q_init=2, alpha=2.0, q_max=8, patience=1)
    header = header_of(raw, device + setting, levels=levels, steps=steps)
    program = build(machine, cache, ["zo_steps.cc"], header, defines=defines)
    code, lines = run(machine, program)
    assert code == 0, lines[-5:]
    assert fields(lines, "begin")[0][0] == OK, lines
    assert fields(lines, "begin")[0][2] == stale
    twin = Twin(raw, options, scheduler)
    found, epochs = fields(lines, "step"), fields(lines, "epoch")
    for i in range(steps):
        assert found[i] == twin.step(i), f"{form}: step {i}"
        if i % 10 == 9:
            assert epochs[i // 10] == twin.epoch(), f"{form}: epoch {i // 10}"
    assert len({row[4] for row in found}) > steps // 2, "nothing was learnt"
    return lines


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("machine", ["host", "tflm-host"])
def test_fifty_steps_equal_the_host_trainer(machine, form, models, tmp_path_factory):
    steps_equal(need(machine), tmp_path_factory, models, form)


@pytest.mark.parametrize("machine", BOARDS + REAL_BOARDS)
def test_steps_on_emulated_boards_equal_the_host_trainer(
    machine, models, tmp_path_factory, record_property
):
    lines = steps_equal(need(machine), tmp_path_factory, models, "all layers, momentum")
    (begin,), (steps,) = fields(lines, "stack")
    record_property("stack of Begin", begin)
    record_property("stack of Begin and forward-only steps", steps)
    assert steps < 4096


STALE_MACHINES = [("host", ["TFLM_TRAIN_TESTING_STALE"]), ("tflm-m55-cmsis-nn", [])]


@pytest.mark.parametrize(("machine", "defines"), STALE_MACHINES)
def test_kernels_with_stale_sums_are_refused_with_the_flag(
    machine, defines, models, tmp_path_factory
):
    machine = need(machine)
    raw = models("last", dense=machine.tflm is None)
    header = header_of(raw, "o->q = 2;", steps=1)
    program = build(machine, tmp_path_factory, ["zo_steps.cc"], header, defines=defines)
    code, lines = run(machine, program)
    assert code == 0
    assert fields(lines, "begin")[0][0] == STALE, lines
    assert any("OPTIMIZE_KERNELS_FOR=KERNELS_OPTIMIZED_FOR_SIZE" in line for line in lines)


@pytest.mark.parametrize(("machine", "defines"), STALE_MACHINES)
def test_kernels_with_stale_sums_train_right_when_prepared_again(
    machine, defines, models, tmp_path_factory
):
    steps_equal(
        need(machine),
        tmp_path_factory,
        models,
        "last layer",
        setting="o->stale = StalePolicy::kReprepare;",
        stale=1,
        defines=defines,
    )


@pytest.mark.parametrize(
    ("setting", "less", "status", "message"),
    [
        ("o->q = 0;", False, OPTIONS, "an option is out of its range"),
        ("o->q = 1; o->estimator = ZoEstimator::kLeaveOneOut;", False, OPTIONS, "out of its range"),
        ("o->mu = 63;", False, HEADROOM, "no room for a perturbation"),
        ("o->beta_q8 = 10;", True, MEMORY, "needed 432 bytes for weights and training state"),
    ],
)
def test_refusals_say_why(setting, less, status, message, models, tmp_path_factory):
    machine = need("host")
    header = header_of(models("last", dense=True, headroom=1), setting, less=less)
    _, lines = run(machine, build(machine, tmp_path_factory, ["zo_steps.cc"], header))
    assert fields(lines, "begin")[0][0] == status
    assert any(message in line for line in lines), lines
