"""Generated training code of the integer-only methods: chains of layers (NITI, PRIOT, PRIOT-S)."""

import dataclasses

import numpy as np

from converters.c_source_plan import Arena
from converters.c_source_scratch import layer_scratch
from converters.c_source_text import HEADER, STATE_FUNCTIONS, api_header, data_files
from converters.errors import UnsupportedModelError

ROUNDINGS = ("half_up", "half_away", "pseudo_stochastic", "stochastic", "tflm")
_ROUNDING_NAMES = ("kHalfUp", "kHalfAway", "kPseudoStochastic", "kStochastic", "kTflm")
_STORAGE_NAMES = {"dense": "kDense", "bitmask": "kBitmask", "index_list": "kIndexList"}
_SHAPES = {
    "conv": "ConvShape",
    "depthwise": "ConvShape",
    "dense": "DenseShape",
    "max_pool": "PoolShape",
}
_CALLS = {"conv": "Conv", "depthwise": "Depthwise", "dense": "Dense"}


@dataclasses.dataclass
class ChainLayer:
    """One layer.

    Attributes:
      kind: `conv`, `depthwise`, `dense` or `max_pool`.
      sizes: the integers of micro_ops/core's ConvShape, DenseShape or PoolShape, in order.
      relu: a ReLU follows.
      weights: int8 [edges]; None for a pool.
      bias: int32 [channels] or None.
      scores: int8 [edges] or None: the weights themselves train.
      scored: bool [edges], the edges that have a score; None: all.
      threshold: an edge with a score below is pruned.
      forward_shift, backward_shift: static shifts.
      update_shift: bits of the gradient less mu; below 0 it means 0 until a decay raises it.
      storage: how scores lie in memory: `dense`, `bitmask` or `index_list`.
    """

    kind: str
    sizes: list
    relu: bool = False
    weights: np.ndarray | None = None
    bias: np.ndarray | None = None
    scores: np.ndarray | None = None
    scored: np.ndarray | None = None
    threshold: int = -64
    weight_exponent: int = 0
    forward_shift: int = 0
    backward_shift: int = 0
    update_shift: int = 0
    storage: str = "dense"

    @property
    def in_size(self):
        """Values the layer reads."""
        return self.sizes[0] if self.kind == "dense" else int(np.prod(self.sizes[:3]))

    @property
    def out_size(self):
        """Values the layer writes."""
        if self.kind == "dense":
            return self.sizes[1]
        channels = self.sizes[2] if self.kind == "max_pool" else self.sizes[5]
        return self.sizes[3] * self.sizes[4] * channels

    @property
    def row_size(self):
        """Edges of one row of the weights."""
        if self.kind == "dense":
            return self.sizes[0]
        kernel = self.sizes[6] * self.sizes[7]
        return kernel * (self.sizes[5] if self.kind == "depthwise" else self.sizes[2])

    @property
    def scratch_kind(self):
        """`weights`, `dense` or `packed`: what the kernels see the weights through."""
        if self.scores is None:
            return "weights"
        return "dense" if self.storage == "dense" else "packed"


@dataclasses.dataclass
class Chain:
    """A chain of layers with the settings of its training.

    Attributes:
      method: `niti`, `priot` or `priot-s`.
      forward, backward, update: rounding modes by name.
      masked_backward: errors go through the masked weights (False: the paper's form).
      input_exponent: input real value = code * 2^input_exponent.
      seed: of stochastic rounding.
    """

    layers: list
    method: str = "priot"
    forward: str = "tflm"
    backward: str = "tflm"
    update: str = "tflm"
    masked_backward: bool = True
    input_exponent: int = -7
    seed: int = 0

    def logits_exponent(self):
        """Real logits = code * 2^this."""
        weighted = [layer for layer in self.layers if layer.weights is not None]
        return self.input_exponent + sum(n.weight_exponent + n.forward_shift for n in weighted)


def check_chain(chain):
    """Refuse what the generated code cannot do.

    Raises:
      UnsupportedModelError: the message names the layer and the way out.
    """
    layers = chain.layers
    if not layers or layers[-1].kind == "max_pool" or layers[-1].relu:
        raise UnsupportedModelError("Expected a last layer of weights without ReLU, got another")
    for before, layer in zip(layers, layers[1:], strict=False):
        if before.out_size != layer.in_size:
            raise UnsupportedModelError(
                f"Expected a chain of layers, got {before.out_size} values for a layer of "
                f"{layer.in_size}: only sequential models are trained by {chain.method}"
            )
    for number, layer in enumerate(layers):
        if layer.kind == "dense" and layer.sizes[0] > 65536:
            raise UnsupportedModelError(
                f"Expected dense layers of at most 65536 inputs, got layer {number} with "
                f"{layer.sizes[0]}"
            )
        if layer.kind == "conv" and layer.sizes[6] * layer.sizes[7] > 128:
            raise UnsupportedModelError(
                f"Expected convolution windows of at most 128 positions, got layer {number} with "
                f"{layer.sizes[6]} x {layer.sizes[7]}"
            )
        if layer.scored is not None and layer.storage == "dense":
            raise UnsupportedModelError(
                f"Expected storage bitmask or index_list for the sparse scores of layer {number}, "
                "got dense"
            )


def packed_scores(layer):
    """(scores int8, bitmask uint8 or None, indices uint16 or None, counts uint16 or None)."""
    scores = np.asarray(layer.scores, np.int8).ravel()
    if layer.storage == "dense":
        return scores, None, None, None
    scored = np.ones(scores.size, bool) if layer.scored is None else np.asarray(layer.scored, bool)
    scored = scored.ravel()
    packed = scores[scored]
    if layer.storage == "bitmask":
        return packed, np.packbits(scored, bitorder="little"), None, None
    rows = scored.reshape(-1, layer.row_size)
    places = [np.flatnonzero(row) for row in rows]
    counts = np.array([len(p) for p in places], np.uint16)
    return packed, None, np.concatenate(places).astype(np.uint16), counts


def trained_arrays(chain):
    """The arrays training changes, `[(field, values)]`, in the order of the state's CRC."""
    arrays = []
    for number, layer in enumerate(chain.layers):
        if layer.weights is None:
            continue
        if layer.scores is not None:
            arrays.append((f"scores{number}", packed_scores(layer)[0]))
        elif chain.method == "niti":
            arrays.append((f"weights{number}", np.asarray(layer.weights, np.int8).ravel()))
    return arrays


class ChainSource:
    """Text of a chain's program.

    Args:
      chain: a `Chain`.
      kernels: `portable`, `armv6m` or `helium`: whose scratch the arena must hold.
      trains: False leaves the backward pass out.
    """

    def __init__(self, chain, *, kernels, trains=True):
        check_chain(chain)
        self.chain, self.kernels, self.trains = chain, kernels, trains
        self.layers = chain.layers
        self.first = next(i for i, layer in enumerate(self.layers) if layer.weights is not None)
        self.constants = {}
        self.trained = trained_arrays(chain) if trains else []
        self.fields = dict(trained_arrays(chain))
        self.arena = Arena()
        self._plan()
        self.arena_bytes = self.arena.plan()

    # Memory ---------------------------------------------------------------------------------------

    def _backward_time(self, number):
        return len(self.layers) + 1 + (len(self.layers) - 1 - number)

    def _plan(self):
        count = len(self.layers)
        end = self._backward_time(0)
        for i, layer in enumerate(self.layers):
            self.arena.use(f"Output{i}", i, layer.out_size)
            if i > 0:
                self.arena.use(f"Output{i - 1}", i)
            scratch = self.scratch(layer)
            if scratch:
                self.arena.use(f"Forward{i}", i, scratch)
            if layer.kind == "max_pool" and self.trains:
                self.arena.use(f"Places{i}", i, layer.out_size)
        self.arena.use(f"Output{count - 1}", end)
        if not self.trains:
            return
        self.arena.use("Loss", count, 4 * self.layers[-1].out_size)
        self.arena.use(f"Error{count - 1}", count, self.layers[-1].out_size)
        for i in range(count - 1, self.first - 1, -1):
            now, layer = self._backward_time(i), self.layers[i]
            self.arena.use(f"Error{i}", now)
            if i > 0:
                self.arena.use(f"Output{i - 1}", now)
            if i > self.first:
                self.arena.use(f"Error{i - 1}", now, layer.in_size)
            if layer.kind == "max_pool":
                self.arena.use(f"Places{i}", now)
            elif self.scratch(layer):
                self.arena.use(f"Backward{i}", now, self.scratch(layer))

    def scratch(self, layer):
        """Bytes of scratch of a layer's kernels."""
        if layer.kind == "max_pool":
            return 0
        return layer_scratch(self.kernels, layer.kind, layer.sizes, layer.scratch_kind)

    # Text -----------------------------------------------------------------------------------------

    def files(self):
        """`{file name: text}`."""
        source = [
            HEADER,
            '#include "model.h"\n\n#include <cstring>\n\n#include "micro_ops/core/niti_loss.h"\n'
            '#include "micro_ops/trainer/crc32.h"\n#include "micro_ops/trainer/train_kernels.h"\n'
            '#include "model_data.h"\n\nnamespace {\n\nusing namespace tflm_train;\n\n',
            self._tables(),
            self._state(),
            self._forward(),
            self._backward() if self.trains else "",
            "}  // namespace\n\n",
            self._interface(),
        ]
        files = data_files(self.constants)
        files["model.cc"] = "".join(source)
        exponent = self.chain.logits_exponent()
        files["model.h"] = api_header(
            inputs=self.layers[0].in_size,
            outputs=self.layers[-1].out_size,
            batch=1,
            state=self.state_bytes,
            arena=self.arena_bytes,
            method=self.chain.method,
            trains=self.trains,
            scales=(2.0**self.chain.input_exponent, 0, 2.0**exponent, 0),
        )
        return files

    def _tables(self):
        lines = [f"alignas(16) uint8_t arena[{max(self.arena_bytes, 16)}];\n\n"]
        lines.append("// Places in the arena.\n")
        for buffer in self.arena.buffers.values():
            lines.append(f"constexpr int32_t k{buffer.name} = {buffer.offset};\n")
        lines.append("\ntemplate <typename T = int8_t>\nT* At(int32_t offset) {\n")
        lines.append("  return reinterpret_cast<T*>(arena + offset);\n}\n\n")
        for i, layer in enumerate(self.layers):
            numbers = ", ".join(map(str, layer.sizes))
            lines.append(f"constexpr {_SHAPES[layer.kind]} kShape{i} = {{{numbers}}};\n")
            if layer.kind != "max_pool":
                kind = {"weights": "kWeights", "dense": "kDense", "packed": "kPacked"}
                lines.append(
                    f"static_assert(Train{_CALLS[layer.kind]}Scratch(kShape{i}, "
                    f"ScratchKind::{kind[layer.scratch_kind]}) <= {self.scratch(layer)},\n"
                    '              "the plan holds the scratch");\n'
                )
                self._constants(i, layer)
        return "".join(lines) + "\n"

    def _constants(self, i, layer):
        weights = np.asarray(layer.weights, np.int8).ravel()
        self.constants[f"kWeights{i}"] = weights
        if layer.bias is not None:
            self.constants[f"kBias{i}"] = np.asarray(layer.bias, np.int32).ravel()
        if layer.scores is None:
            return
        packed, mask, indices, counts = packed_scores(layer)
        if np.any(packed) or not self.trains:
            self.constants[f"kScores{i}"] = packed
        if mask is not None:
            self.constants[f"kScored{i}"] = mask
        if indices is not None:
            self.constants[f"kIndices{i}"] = indices
            self.constants[f"kRowCounts{i}"] = counts

    def _state(self):
        self.magic = _magic(self.chain)
        fields = "".join(f"  alignas(4) int8_t {n}[{max(v.size, 1)}];\n" for n, v in self.trained)
        size = 16 + sum(-(-max(v.size, 1) // 4) * 4 for _, v in self.trained)
        self.state_bytes = size
        text = [
            "// All that training changes.\nstruct State {\n  uint32_t magic;\n  uint32_t step;\n"
            "  int32_t decay;\n  uint32_t reserved;\n" + fields + "};\n",
            f'static_assert(sizeof(State) == {size}, "model.h states the size");\n\nState state;\n',
        ]
        if self.trains:
            text.append("ScoreCounts counts;\n\n" if self.chain.method != "niti" else "\n")
        for i, layer in enumerate(self.layers):
            if layer.scores is None:
                continue
            if self.trains:
                scores = f"state.scores{i}"
            else:
                scores = f"const_cast<int8_t*>(model_data::kScores{i})"
            mask = f"model_data::kScored{i}" if f"kScored{i}" in self.constants else "nullptr"
            sparse = f"kIndices{i}" in self.constants
            indices = f"model_data::kIndices{i}" if sparse else "nullptr"
            row_counts = f"model_data::kRowCounts{i}" if sparse else "nullptr"
            text.append(
                f"ScoreView Scores{i}() {{\n  return {{{scores}, {mask}, {indices}, {row_counts}, "
                f"{layer.threshold}, ScoreStorage::{_STORAGE_NAMES[layer.storage]}}};\n}}\n"
            )
        return "".join(text) + "\n"

    def _weights(self, i):
        if self.chain.method == "niti" and self.trains:
            return f"state.weights{i}"
        return f"model_data::kWeights{i}"

    def _bias(self, i):
        return f"model_data::kBias{i}" if self.layers[i].bias is not None else "nullptr"

    def _key(self, i, mode, use):
        if mode != "stochastic":
            return "0"
        number = sum(layer.weights is not None for layer in self.layers[:i])
        return f"RngKey({self.chain.seed}u, step, NitiStream({number}, NitiUse::{use}))"

    def _requantize(self, i, shift, mode, low, high, use):
        name = _ROUNDING_NAMES[ROUNDINGS.index(mode)]
        return f"Requantize{{{shift}, Rounding::{name}, {low}, {high}, {self._key(i, mode, use)}}}"

    def _scratch_at(self, prefix, i):
        return f"At<void>(k{prefix}{i})" if f"{prefix}{i}" in self.arena.buffers else "nullptr"

    def _input(self, i):
        return "input" if i == 0 else f"At(kOutput{i - 1})"

    def _forward(self):
        text = ["void Forward(const int8_t* input, uint32_t step) {\n  (void)step;\n"]
        for i, layer in enumerate(self.layers):
            if layer.kind == "max_pool":
                places = f"At<uint8_t>(kPlaces{i})" if self.trains else "nullptr"
                text.append(
                    f"  NitiMaxPoolForward(kShape{i}, {self._input(i)}, At(kOutput{i}), "
                    f"{places});\n"
                )
                continue
            low = 0 if layer.relu else -128
            requantize = self._requantize(
                i, layer.forward_shift, self.chain.forward, low, 127, "kForward"
            )
            view, scores = self._view(i)
            text.append(
                f"  {{\n{view}    Train{_CALLS[layer.kind]}Forward(kShape{i}, {self._input(i)}, "
                f"{self._weights(i)}, {self._bias(i)}, {scores},\n        {requantize}, "
                f"{self._scratch_at('Forward', i)}, At(kOutput{i}));\n  }}\n"
            )
        return "".join(text) + "}\n\n"

    def _view(self, i):
        if self.layers[i].scores is None:
            return "", "nullptr"
        return f"    const ScoreView scores = Scores{i}();\n", "&scores"

    def _relu_of(self, j):
        """Output whose ReLU the error of layer j passes, or null."""
        layers = self.layers
        pooled = j + 1 < len(layers) and layers[j + 1].kind == "max_pool"
        behind_pool = layers[j].kind == "max_pool" and j > 0 and layers[j - 1].relu
        return (layers[j].relu and not pooled) or behind_pool

    def _backward(self):
        text = [
            "bool AllZero(const int8_t* values, int32_t size) {\n  int32_t any = 0;\n"
            "  for (int32_t i = 0; i < size; ++i) any |= values[i];\n  return any == 0;\n}\n\n"
            "int32_t UpdateShift(int32_t shift) {\n"
            "  const int32_t sum = shift + state.decay;\n"
            "  return sum < 0 ? 0 : sum > kMaxShift ? kMaxShift : sum;\n}\n\n"
            "void Backward(const int8_t* input, uint32_t step) {\n  (void)input;\n  (void)step;\n"
        ]
        for i in range(len(self.layers) - 1, self.first - 1, -1):
            layer = self.layers[i]
            if layer.kind == "max_pool":
                text.append(
                    f"  NitiMaxPoolBackward(kShape{i}, At(kError{i}), At<uint8_t>(kPlaces{i}), "
                    f"At(kError{i - 1}));\n"
                )
                if self._relu_of(i - 1):
                    size = layer.in_size
                    text.append(
                        f"  NitiReluBackward(At(kOutput{i - 1}), {size}, At(kError{i - 1}));\n"
                    )
            else:
                text.append(self._backward_layer(i, layer))
            if i - 1 > self.first:
                text.append(f"  if (AllZero(At(kError{i - 1}), {layer.in_size})) return;\n")
        return "".join(text) + "}\n\n"

    def _backward_layer(self, i, layer):
        view, scores = self._view(i)
        call, scratch = _CALLS[layer.kind], self._scratch_at("Backward", i)
        text = ["  {\n", view]
        if i > self.first:
            relu = f"At(kOutput{i - 1})" if self._relu_of(i - 1) else "nullptr"
            through = scores if self.chain.masked_backward else "nullptr"
            requantize = self._requantize(
                i, layer.backward_shift, self.chain.backward, -127, 127, "kBackward"
            )
            text.append(
                f"    Train{call}Backward(kShape{i}, At(kError{i}), {self._weights(i)}, {through}, "
                f"{relu},\n        {requantize}, {scratch}, At(kError{i - 1}));\n"
            )
        name = _ROUNDING_NAMES[ROUNDINGS.index(self.chain.update)]
        key = self._key(i, self.chain.update, "kUpdate")
        params = f"UpdateParams{{UpdateShift({layer.update_shift}), Rounding::{name}, {key}}}"
        begin = f"(kShape{i}, {self._input(i)}, At(kError{i})"
        if layer.scores is not None:
            text.append(
                f"    Train{call}Scores{begin}, {self._weights(i)}, scores,\n        {params}, "
                f"{scratch}, &counts);\n"
            )
        elif self.chain.method == "niti":
            text.append(
                f"    Train{call}Weights{begin},\n        {params}, {scratch}, "
                f"{self._weights(i)});\n"
            )
        return "".join(text) + "  }\n"

    def _interface(self):
        last = len(self.layers) - 1
        classes = self.layers[-1].out_size
        infer = (
            "int model_infer(const int8_t* input, int8_t* logits) {\n"
            "  Forward(input, state.step);\n"
            f"  memcpy(logits, At(kOutput{last}), MODEL_OUTPUT_SIZE);\n  return 0;\n}}\n"
        )
        if not self.trains:
            text = f"void model_init(void) {{ state.magic = {self.magic:#x}u; }}\n\n" + infer
            return 'extern "C" {\n\n' + text + '\n}  // extern "C"\n'
        reset = []
        for name, values in self.trained:
            source = "k" + name[0].upper() + name[1:]
            if source in self.constants:
                reset.append(f"  memcpy(state.{name}, model_data::{source}, {values.size});\n")
            else:
                reset.append(f"  memset(state.{name}, 0, {values.size});\n")
        crcs = "".join(
            f"  crc = Crc32(state.{n}, {v.size}, crc);\n" for n, v in self.trained if v.size
        )
        return (
            'extern "C" {\n\n'
            f"void model_init(void) {{\n  state.magic = {self.magic:#x}u;\n  state.step = 0;\n"
            "  state.decay = 0;\n"
            + "".join(reset)
            + "}\n\n"
            + infer
            + f"""
int model_train_step(const int8_t* input, int32_t label) {{
  if (label < 0 || label >= MODEL_OUTPUT_SIZE) return -1;
  const uint32_t step = state.step++;
  Forward(input, step);
  if (!NitiCrossEntropyError(At(kOutput{last}), {classes}, {self.chain.logits_exponent()}, label,
                             At<int32_t>(kLoss), At(kError{last}))) {{
    return 0;
  }}
  Backward(input, step);
  return 1;
}}

int model_train_batch(const int8_t* const* inputs, const int32_t* labels, int32_t count) {{
  return count == 1 ? model_train_step(inputs[0], labels[0]) : -1;
}}

const int8_t* model_logits(void) {{ return At(kOutput{last}); }}
int64_t model_loss(void) {{ return 0; }}
int32_t model_end_epoch(int64_t) {{ return 0; }}
void model_set_decay(int32_t shift) {{ state.decay = shift < 0 ? 0 : shift; }}

{STATE_FUNCTIONS}
uint32_t model_state_crc(void) {{
  uint32_t crc = 0;
{crcs}  return crc;
}}

}}  // extern "C"
"""
        )


def _magic(chain):
    """A number that states of other models do not start with."""
    import zlib

    crc = zlib.crc32(chain.method.encode())
    for layer in chain.layers:
        crc = zlib.crc32(np.asarray(layer.sizes, "<i4").tobytes(), crc)
        if layer.weights is not None:
            crc = zlib.crc32(np.asarray(layer.weights, np.int8).tobytes(), crc)
    return crc
