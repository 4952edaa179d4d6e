"""One Invoke() of a training graph is one step of the host trainer, bit for bit, everywhere."""

import numpy as np
import pytest
from tflm_nets import CLASSES, Twin, priot_model
from tflm_programs import build, c_array, fields, model_array, need, run

from converters.train_graph import train_graph

SIZE = 9 * 10 * 2
BOARDS = ["rp2040", "cortex-m55"]
REAL_BOARDS = ["tflm-rp2040", "tflm-m55-reference", "tflm-m55-cmsis-nn", "tflm-m55-cmsis-nn-size"]
FORMS = {
    "priot": {},
    "priot paper form, biases": {"masked": False, "bias": True},
    "priot-s, bitmask": {"method": "priot-s", "scored": 0.5},
    "priot-s, index list": {"method": "priot-s", "scored": 0.02},
    "niti": {"method": "niti"},
    "depthwise, overlapping pools": {"depthwise": True, "overlap": True},
    "stochastic": {"rounding": "stochastic", "depthwise": True},
    "a layer that is pruned whole": {"dead": 2, "bias": True},
    "pseudo-stochastic": {"rounding": "pseudo_stochastic", "method": "priot-s", "scored": 0.5},
}


def script(steps=50, *, seed=3):
    """Labels with inference, a reset, a save and a load among them; samples; decays."""
    rng = np.random.default_rng(seed)
    labels = list(rng.integers(0, CLASSES, steps))
    labels[steps // 4 : steps // 4] = [-1, -3, -1]
    labels[steps // 2 : steps // 2] = [-4, -1]
    labels += [-2, -1, 3, -4, -1]
    samples = rng.integers(0, 128, (len(labels), SIZE)).astype(np.int8)
    # Some samples again and again, so that the net learns them and errors vanish.
    samples[::3] = samples[0]
    decay = np.repeat([0, 1, 2], -(-len(labels) // 3))[: len(labels)]
    return np.array(labels, np.int32), samples, decay.astype(np.int32)


def case_header(raw, labels, samples, decay, *, arena=60000):
    return (
        model_array(raw)
        + c_array("kScript", labels, "int32_t")
        + c_array("kDecay", decay, "int32_t")
        + c_array("kSamples", samples, "int8_t")
        + f"constexpr int32_t kScriptLength = {len(labels)};\n"
        + f"constexpr uint32_t kArenaBytes = {arena};\nconstexpr uint32_t kSlotBytes = 8192;\n"
    )


def steps_equal(machine, cache, form, *, seed=0, defines=()):
    raw = priot_model(**FORMS[form])
    labels, samples, decay = script()
    header = case_header(train_graph(raw, seed=seed), labels, samples, decay)
    program = build(machine, cache, ["train_steps.cc"], header, defines=defines)
    code, lines = run(machine, program)
    assert code == 0, lines[-5:]
    twin = Twin(raw, seed=seed)
    expected = [twin.line(*row) for row in zip(samples, labels, decay, strict=True)]
    found = fields(lines, "step")
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a == b, f"{form}: line {number}"
    # Below a dead layer nothing is learnt, and above it only from the bias.
    least = 5 if "dead" in FORMS[form] else 45
    assert len({row[5] for row in found if row[0] >= 0}) > least, "nothing was learnt"
    return lines


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("machine", ["host", "tflm-host"])
def test_fifty_steps_equal_the_host_trainer(machine, form, tmp_path_factory):
    steps_equal(need(machine), tmp_path_factory, form, seed=5)


@pytest.mark.parametrize(
    "form",
    [
        "depthwise, overlapping pools",
        "priot-s, bitmask",
        "priot-s, index list",
        "niti",
        "a layer that is pruned whole",
    ],
)
@pytest.mark.parametrize("machine", BOARDS + REAL_BOARDS)
def test_fifty_steps_on_emulated_boards_equal_the_host_trainer(
    machine, form, tmp_path_factory, record_property
):
    lines = steps_equal(need(machine), tmp_path_factory, form)
    stack = fields(lines, "stack")[0][0]
    record_property("stack of a training graph", stack)
    assert stack < 4096


@pytest.mark.parametrize("machine", ["host", "host-ubsan", "tflm-host", *BOARDS, *REAL_BOARDS[:2]])
def test_options_at_odd_addresses_are_read_without_unaligned_access(machine, tmp_path_factory):
    steps_equal(need(machine), tmp_path_factory, "priot-s, bitmask", defines=["ODD_OPTIONS"])
