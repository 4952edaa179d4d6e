"""Generated training code of the integer-only methods: chains of layers (NITI, PRIOT, PRIOT-S)."""

import numpy as np

from converters.c_source_chain import (
    ROUNDINGS,
    chain_magic,
    check_chain,
    packed_scores,
    trained_arrays,
)
from converters.c_source_chain_api import chain_interface
from converters.c_source_plan import Arena
from converters.c_source_scratch import layer_scratch
from converters.c_source_text import HEADER, api_header, data_files

_ROUNDING_NAMES = ("kHalfUp", "kHalfAway", "kPseudoStochastic", "kStochastic", "kTflm")
_STORAGE_NAMES = {"dense": "kDense", "bitmask": "kBitmask", "index_list": "kIndexList"}
_SHAPES = {
    "conv": "ConvShape",
    "depthwise": "ConvShape",
    "dense": "DenseShape",
    "max_pool": "PoolShape",
}
_CALLS = {"conv": "Conv", "depthwise": "Depthwise", "dense": "Dense"}


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
            chain_interface(self),
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
        self.magic = chain_magic(self.chain)
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
