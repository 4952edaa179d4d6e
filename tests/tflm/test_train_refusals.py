"""Damaged training graphs are refused with a message that names the operator."""

import struct

import numpy as np
import pytest
from tflm_nets import priot_model
from tflm_programs import build, c_array, fields, need, run

from converters.errors import ConversionError, UnsupportedModelError
from converters.flatbuffer import read_model, write_model
from converters.priot_read import read_net
from converters.train_graph import METHOD, train_graph
from converters.training_info import read_training_info

MASKED, GRADIENT = "TFLM_TRAIN_MASKED_", "_GRADIENT"
INT8, INT32, UINT8 = 9, 2, 3


class Graph:
    """A training graph to damage; operators by part of their name."""

    def __init__(self, **net):
        self.model = read_model(train_graph(priot_model(**net)))
        self.graph = self.model.subgraphs[0]

    def op(self, name, number=0):
        codes = self.model.operatorCodes
        found = [
            o for o in self.graph.operators if name in codes[o.opcodeIndex].customCode.decode()
        ]
        return found[number]

    def tensor(self, op, place):
        return self.graph.tensors[op.inputs[place]]

    def option(self, op, place, value):
        words = np.frombuffer(bytes(bytearray(op.customOptions)), np.int32).copy()
        words[place] = value
        op.customOptions = np.frombuffer(words.tobytes(), np.uint8)

    def rewire(self, op, place, tensor):
        inputs = list(op.inputs)
        inputs[place] = tensor
        op.inputs = inputs

    def bytes(self):
        return write_model(self.model)


def damage(what, **net):
    graph = Graph(**net)
    what(graph)
    return graph.bytes()


def _no_scores(g):
    g.rewire(g.op("MASKED_FULLY"), 3, -1)
    g.rewire(g.op("MASKED_FULLY"), 5, -1)


# (message that must appear, what is changed, options of the net); the operator's name comes first.
CASES = {
    "conv input type": (
        "TFLM_TRAIN_MASKED_CONV_2D: expected an int8 input",
        lambda g: setattr(g.tensor(g.op("MASKED_CONV"), 0), "type", INT32), {}),
    "conv zero point": (
        "TFLM_TRAIN_MASKED_CONV_2D: expected an int8 output with zero point 0",
        lambda g: setattr(g.graph.tensors[g.op("MASKED_CONV").outputs[0]].quantization,
                          "zeroPoint", np.array([-128], np.int64)), {}),
    "conv batch": (
        "TFLM_TRAIN_MASKED_CONV_2D: expected batch 1",
        lambda g: setattr(g.tensor(g.op("MASKED_CONV"), 0), "shape", [2, 9, 10, 1]), {}),
    "conv stride": (
        "TFLM_TRAIN_MASKED_CONV_2D: expected windows that touch",
        lambda g: g.option(g.op("MASKED_CONV"), 6, 9), {}),
    "conv version": (
        "TFLM_TRAIN_MASKED_CONV_2D: expected options of version 1 or 2",
        lambda g: g.option(g.op("MASKED_CONV"), 0, 3), {}),
    "conv shift": (
        "TFLM_TRAIN_MASKED_CONV_2D: expected a shift of 0 to 31",
        lambda g: g.option(g.op("MASKED_CONV"), 1, 32), {}),
    "conv option bytes": (
        "TFLM_TRAIN_MASKED_CONV_2D: expected option bytes",
        lambda g: setattr(g.op("MASKED_CONV"), "customOptions", np.zeros(7, np.uint8)), {}),
    "depthwise weights": (
        "TFLM_TRAIN_MASKED_DEPTHWISE_CONV_2D: expected weights [1,",
        lambda g: setattr(g.tensor(g.op("MASKED_DEPTHWISE"), 1), "shape", [1, 3, 3, 9]),
        {"depthwise": True}),
    "dense width": (
        "TFLM_TRAIN_MASKED_FULLY_CONNECTED: expected as many inputs",
        lambda g: setattr(g.tensor(g.op("MASKED_FULLY", 1), 1), "shape", [21, 10]), {}),
    "dense bias type": (
        "TFLM_TRAIN_MASKED_FULLY_CONNECTED: expected an int32 bias",
        lambda g: g.rewire(g.op("MASKED_FULLY"), 2, g.op("MASKED_FULLY").inputs[5]), {}),
    "dense without scores": (
        "TFLM_TRAIN_MASKED_FULLY_CONNECTED: expected scores", _no_scores, {}),
    "scores that are no variable": (
        "TFLM_TRAIN_MASKED_FULLY_CONNECTED: expected scores, or weights without scores, as a vari",
        lambda g: g.rewire(g.op("MASKED_FULLY"), 3, g.op("MASKED_FULLY").inputs[5]), {}),
    "bitmask": (
        "TFLM_TRAIN_MASKED_FULLY_CONNECTED: expected one score per bit",
        lambda g: setattr(g.model.buffers[g.tensor(g.op("MASKED_FULLY"), 4).buffer], "data",
                          np.zeros(g.tensor(g.op("MASKED_FULLY"), 4).shape[0], np.uint8)),
        {"method": "priot-s", "scored": 0.5}),
    "index list": (
        "TFLM_TRAIN_MASKED_FULLY_CONNECTED: expected ascending places",
        lambda g: setattr(g.model.buffers[g.tensor(g.op("MASKED_FULLY"), 4).buffer], "data",
                          np.full(2 * g.tensor(g.op("MASKED_FULLY"), 4).shape[0], 1, np.uint8)),
        {"method": "priot-s", "scored": 0.02}),
    "gradient error size": (
        "TFLM_TRAIN_FULLY_CONNECTED_GRADIENT: expected as many outputs",
        lambda g: g.rewire(g.op("Y_CONNECTED_GRADIENT", 1), 4, g.op("MASKED_CONV").inputs[0]), {}),
    "gradient mu": (
        "TFLM_TRAIN_CONV_2D_GRADIENT: expected mu of 0 to 7",
        lambda g: g.option(g.op("N_CONV_2D_GRADIENT"), 8, 8), {}),
    "pool places": (
        "TFLM_TRAIN_MAX_POOL_2D_GRADIENT: expected places as uint8",
        lambda g: g.rewire(g.op("POOL_2D_GRADIENT"), 1, g.op("POOL_2D_GRADIENT").inputs[0]), {}),
    "pool window": (
        "TFLM_TRAIN_MAX_POOL_2D: expected windows of 1 to 256",
        lambda g: g.option(g.op("MAX_POOL_2D"), 1, 300), {}),
    "label type": (
        "TFLM_TRAIN_CROSS_ENTROPY: expected one int32 label",
        lambda g: setattr(g.graph.tensors[g.graph.inputs[1]], "type", INT8), {}),
    "state": (
        "expected a training state of 8 words",
        lambda g: setattr(g.tensor(g.op("CROSS"), 2), "shape", [7]), {}),
}  # fmt: skip
BAD_LABEL = "TFLM_TRAIN_CROSS_ENTROPY: expected a label below the number of classes, or -1"


def program(machine, cache, models, *, sizes=None, register=True, bad_label=-1):
    sizes = sizes or [60000] * len(models)
    arrays = [
        c_array(f"kModel{i}", np.frombuffer(m, np.uint8), "unsigned char", align="alignas(16) ")
        for i, m in enumerate(models)
    ]
    names = ", ".join(f"kModel{i}" for i in range(len(models)))
    header = "#include <cstddef>\n" + "".join(arrays)
    header += f"const unsigned char* const kModels[] = {{{names}}};\n"
    header += c_array("kArenaSizes", sizes, "size_t")
    header += (
        f"constexpr int32_t kModelCount = {len(models)}, kBadLabelModel = {bad_label};\n"
        f"constexpr bool kRegister = {str(register).lower()};\n"
        f"constexpr uint32_t kArenaBytes = {max(sizes)};\n"
    )
    code, lines = run(machine, build(machine, cache, ["refusals.cc"], header))
    assert (code, lines[-1]) == (0, "done") or "done" in lines, lines[-5:]
    return lines


BOARDS = ["rp2040", "cortex-m55", "tflm-rp2040", "tflm-m55-reference", "tflm-m55-cmsis-nn"]


@pytest.mark.parametrize("machine", ["host", "host-ubsan", "tflm-host", *BOARDS])
def test_refusals_name_the_operator(machine, tmp_path_factory):
    names = list(CASES)
    models = [damage(what, **net) for _, what, net in CASES.values()]
    models.append(train_graph(priot_model()))
    lines = program(need(machine), tmp_path_factory, models, bad_label=len(models) - 1)
    text = "\n".join(lines)
    status = {row[0]: row[1:] for row in fields(lines, "model")}
    for number, name in enumerate(names):
        assert status[number] == [0, 0], f"{name} was not refused"
        assert CASES[name][0] in text, name
    assert status[len(names)] == [1, 0]
    assert BAD_LABEL in text
    # Options at every alignment.
    word = int.from_bytes(bytes([1, 6, 11, 16]), "little")
    last = struct.unpack("<i", bytes((i * 5 + 1) & 255 for i in range(44, 48)))[0]
    assert fields(lines, "options") == [[i, 1, word, last] for i in range(8)]


@pytest.mark.parametrize("machine", ["host", "tflm-host", *BOARDS])
def test_operators_that_are_not_registered_are_named(machine, tmp_path_factory):
    graph = train_graph(priot_model())
    lines = program(need(machine), tmp_path_factory, [graph], register=False)
    assert fields(lines, "model") == [[0, 0, 0]]
    names = [code.customCode.decode() for code in read_model(graph).operatorCodes]
    assert len(names) == 7
    for name in names:
        assert f"{name}: not registered: call tflm_train::RegisterTrainOps(resolver)" in lines


@pytest.mark.parametrize("machine", ["host", "tflm-host", *BOARDS])
def test_an_arena_of_the_need_that_is_found_works_and_a_smaller_one_says_so(
    machine, tmp_path_factory
):
    raw = train_graph(priot_model())
    lines = program(need(machine), tmp_path_factory, [raw] * 3, sizes=[60000, 0, 16])
    assert fields(lines, "model") == [[0, 1, 1], [1, 1, 1], [2, 0, 0]]
    bytes_needed, given = fields(lines, "need")[1]
    assert given == bytes_needed - 16
    assert any(f"arena of {given} bytes" in line for line in lines)
    # The interpreter says what is missing. TFLM plans in what is left of the arena and then speaks
    # of buffers, which the line above explains.
    words = ("missing: ", "Too many buffers", "more needed")
    assert any(word in line for line in lines for word in words)
    assert 0 < bytes_needed < 20000


def test_options_out_of_range_and_other_models_are_refused():
    raw = priot_model()
    with pytest.raises(ConversionError, match="mu"):
        train_graph(raw, mu=8)
    with pytest.raises(ConversionError, match="seed"):
        train_graph(raw, seed=-1)
    graph = train_graph(raw)
    with pytest.raises(UnsupportedModelError, match=METHOD):
        read_net(graph)
    info = read_training_info(read_model(graph))
    assert info.method == METHOD
    assert [t.kind for t in info.trainable] == ["score"] * 4


@pytest.mark.parametrize("graph", [False, True])
def test_a_stock_interpreter_names_the_operator_that_it_lacks(graph):
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    raw = train_graph(priot_model()) if graph else priot_model()
    with pytest.raises((RuntimeError, ValueError), match="TFLM_TRAIN_MASKED_CONV_2D"):
        litert.Interpreter(model_content=raw).allocate_tensors()
