"""Generated code of any int8 flatbuffer: inference, and zeroth-order training of its suffix."""

import numpy as np

from converters.c_source_ops import kernel_call
from converters.c_source_plan import Arena, aligned
from converters.c_source_text import HEADER, api_header, data_files
from converters.c_source_zo import graph_interface, zo_state
from converters.errors import UnsupportedModelError
from converters.flatbuffer import constant, schema


class GraphSource:
    """Text of a flatbuffer's program.

    Args:
      model: a `schema.ModelT`.
      zo: `ZoSettings`, or None for inference alone.
      logits: index of the tensor that the loss reads; None: the first output.
      kernels: as `kernel_call` takes them.

    Raises:
      UnsupportedModelError: an operator without a kernel, or a tensor that is not int8.
    """

    def __init__(self, model, *, zo=None, logits=None, kernels="portable"):
        self.model, self.graph, self.zo = model, model.subgraphs[0], zo
        self.trains = zo is not None
        self.tensors = self.graph.tensors
        self.output = int(self.graph.outputs[0])
        self.logits = self.output if logits is None else int(logits)
        self.inputs = [int(i) for i in self.graph.inputs]
        self.calls = [kernel_call(model, i, kernels) for i in range(len(self.graph.operators))]
        self.trained = {t.tensor: k for k, t in enumerate(zo.tensors)} if zo else {}
        self.first, self.last = self._split()
        self.alias = self._aliases()
        self.constants = {}
        self.arena = Arena()
        self.boundary = self._boundary()
        self._plan()
        self.arena_bytes = self.arena.plan()
        self.feature_bytes = (
            sum(aligned(self.size_of(i)) for i in self.boundary) if self.first else 0
        )

    # Structure --------------------------------------------------------------------------------

    def _split(self):
        """(first operator of the suffix, number after the logits' operator)."""
        operators = self.graph.operators
        producer = max(
            (n for n, op in enumerate(operators) if self.logits in list(op.outputs)), default=0
        )
        first = len(operators) if not self.trained else min(
            n for n, op in enumerate(operators) if self.trained.keys() & {int(i) for i in op.inputs}
        )  # fmt: skip
        if not self.zo:
            return 0, len(operators)
        return min(first, producer), producer + 1

    def _aliases(self):
        alias = {}
        for op, call in zip(self.graph.operators, self.calls, strict=True):
            if call is None:
                alias[int(op.outputs[0])] = int(op.inputs[0])
        return alias

    def root(self, index):
        """The tensor whose bytes `index` shares."""
        while index in self.alias:
            index = self.alias[index]
        return index

    def trained_size(self, index):
        """Elements of a trainable tensor."""
        return constant(self.model, self.tensors[index]).size

    def logits_size(self):
        """Number of logits."""
        return self.size_of(self.root(self.logits))

    def _is_constant(self, index):
        return constant(self.model, self.tensors[index]) is not None

    def size_of(self, index):
        """Bytes of an int8 activation."""
        tensor = self.tensors[index]
        if tensor.type != schema.TensorType.INT8:
            raise UnsupportedModelError(f"Expected int8 activations, got another tensor {index}")
        return int(np.prod([int(d) for d in tensor.shape]))

    def _boundary(self):
        """Activations that cross from the prefix into the rest, in order."""
        if not self.first:
            return list(self.inputs)
        made = set(self.inputs)
        for op in self.graph.operators[: self.first]:
            made.add(self.root(int(op.outputs[0])))
        read = set()
        for op in self.graph.operators[self.first :]:
            read |= {self.root(int(i)) for i in op.inputs if i >= 0}
        return sorted(made & read)

    def _plan(self):
        external = set(self.inputs) | (set(self.boundary) if self.first else set())
        for step, op in enumerate(self.graph.operators):
            if self.calls[step] is None:
                continue
            self.arena.use(f"T{int(op.outputs[0])}", step, self.size_of(int(op.outputs[0])))
            if self.calls[step].scratch:
                self.arena.use(f"Scratch{step}", step, self.calls[step].scratch)
            for index in (self.root(int(i)) for i in op.inputs if i >= 0):
                late = step >= self.first and index in external
                if index in self.inputs or late or self._is_constant(index):
                    continue
                self.arena.use(f"T{index}", step)
        if self.first:
            for index in self.boundary:
                if index not in self.inputs:
                    self.arena.use(f"T{index}", self.first - 1)
        end = len(self.graph.operators)
        for index in (self.root(self.logits), self.root(self.output)):
            if f"T{index}" in self.arena.buffers:
                self.arena.use(f"T{index}", end)

    # Text -----------------------------------------------------------------------------------------

    def files(self):
        """`{file name: text}`."""
        functions = self._functions()
        state = zo_state(self) if self.zo else ""
        interface = graph_interface(self)
        headers = sorted({h for call in self.calls if call for h in call.includes})
        includes = "".join(f'#include "micro_ops/core/{h}"\n' for h in headers)
        includes = includes.replace("core/../", "")
        if self.zo:
            includes += "".join(
                f'#include "micro_ops/trainer/{h}.h"\n' for h in ("crc32", "qscheduler", "zo_step")
            )
        tables = "".join(call.tables for call in self.calls if call)
        memory = [f"alignas(16) uint8_t arena[{max(self.arena_bytes, 16)}];\n"]
        for buffer in self.arena.buffers.values():
            memory.append(f"constexpr int32_t k{buffer.name} = {buffer.offset};\n")
        memory.append(
            "\nint8_t* At(int32_t offset) { return reinterpret_cast<int8_t*>(arena + offset); }\n"
        )
        files = data_files(self.constants)
        files["model.cc"] = (
            f'{HEADER}#include "model.h"\n\n#include <cstring>\n\n{includes}'
            '#include "model_data.h"\n'
            "\nnamespace {\n\nusing namespace tflm_train;\n\n"
            f"{''.join(memory)}\n{tables}\n{state}{functions}}}  // namespace\n\n{interface}"
        )
        source, target = self.tensors[self.inputs[0]], self.tensors[self.output]
        files["model.h"] = api_header(
            inputs=sum(self.size_of(i) for i in self.inputs),
            outputs=self.size_of(self.output),
            batch=self.zo.batch if self.zo else 1,
            state=self.state_bytes if self.zo else 4,
            arena=self.arena_bytes,
            method="zo" if self.zo else "none",
            trains=self.zo is not None,
            scales=(
                float(source.quantization.scale[0]), int(source.quantization.zeroPoint[0]),
                float(target.quantization.scale[0]), int(target.quantization.zeroPoint[0]),
            ),
        )  # fmt: skip
        return files

    def _place(self, index, step):
        """Expression of a tensor's address as operator `step` reads it."""
        if self._is_constant(index):
            return self._constant(index)
        index = self.root(index)
        if step >= self.first > 0 and index in self.boundary:
            before = self.boundary[: self.boundary.index(index)]
            return f"features + {sum(aligned(self.size_of(i)) for i in before)}"
        if index in self.inputs:
            before = self.inputs[: self.inputs.index(index)]
            return f"input + {sum(self.size_of(i) for i in before)}"
        return f"At(kT{index})"

    def _constant(self, index):
        if index in self.trained:
            return f"state.w{self.trained[index]}"
        values = constant(self.model, self.tensors[index])
        self.constants[f"kTensor{index}"] = values
        return f"model_data::kTensor{index}"

    def _run(self, begin, end):
        lines = []
        for step in range(begin, end):
            call = self.calls[step]
            if call is None:
                continue
            op = self.graph.operators[step]
            places = [self._place(int(i), step) if i >= 0 else "nullptr" for i in op.inputs]
            out, scratch = f"At(kT{int(op.outputs[0])})", f"At(kScratch{step})"
            lines.append(f"  {call.text.format(*places, out=out, scratch=scratch)}\n")
        return "".join(lines)

    def _functions(self):
        count = len(self.graph.operators)
        text = []
        if self.first:
            copies, place = [], 0
            for index in self.boundary:
                size = self.size_of(index)
                from_ = self._place(index, -1)
                copies.append(f"  memcpy(features + {place}, {from_}, {size});\n")
                place += aligned(size)
            text.append(
                "// The frozen layers, once per sample.\n"
                f"alignas(16) int8_t all_features[MODEL_MAX_BATCH][{place}];\n\n"
                "void RunPrefix(const int8_t* input, int8_t* features) {\n"
                f"{self._run(0, self.first)}{''.join(copies)}}}\n\n"
            )
            argument = "const int8_t* features"
        else:
            argument = "const int8_t* input"
        logits = self._place(self.logits, self.last)
        text.append(
            f"const int8_t* RunToLogits({argument}) {{\n{self._run(self.first, self.last)}"
            f"  return {logits};\n}}\n\n"
        )
        tail = self._run(self.last, count)
        result = self._place(self.output, count)
        uses = "features" if self.first else "input"
        name = uses if uses in tail or uses in result else f"/*{uses}*/"
        text.append(
            f"const int8_t* RunToOutput({argument.split('*')[0]}* {name}) {{\n{tail}"
            f"  return {result};\n}}\n\n"
        )
        return "".join(text)
