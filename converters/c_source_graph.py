"""Generated code of any int8 flatbuffer: inference, and zeroth-order training of its suffix."""

import dataclasses
import zlib

import numpy as np

from converters.c_source_ops import kernel_call
from converters.c_source_plan import Arena, aligned
from converters.c_source_text import HEADER, STATE_FUNCTIONS, api_header, data_files
from converters.errors import UnsupportedModelError
from converters.flatbuffer import constant, schema


@dataclasses.dataclass(frozen=True)
class ZoTensorSettings:
    """A trainable tensor: its index, perturbation unit and largest magnitude."""

    tensor: int
    unit: int = 1
    limit: int = 126


@dataclasses.dataclass(frozen=True)
class ZoSettings:
    """What a device needs to repeat the host's zeroth-order trainer; all of it integers.

    Attributes:
      tensors: the trainable tensors in their order.
      rates: `(q, lr_q16, raw multiplier)` of every q that the run can have, the first to start.
      estimator: 0 one-sided, 1 leave-one-out, 2 two-sided.
      rms: normalise by the running root mean square.
      update: `stochastic` or `int16_shadow`.
      total_steps: length of the cosine decay, 0 for a constant rate.
      loss_multiplier: of the integer cross-entropy.
      batch: most samples of a step.
      patience, tau, maximize: of the q schedule; it stays at the first q with one rate.
    """

    tensors: tuple
    rates: tuple
    loss_multiplier: int
    seed: int = 0
    mu: int = 1
    estimator: int = 0
    rms: bool = True
    beta_q8: int = 0
    update: str = "stochastic"
    total_steps: int = 0
    batch: int = 1
    patience: int = 5
    tau: int = 0
    maximize: bool = False


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
        self.feature_bytes = sum(aligned(self._size(i)) for i in self.boundary) if self.first else 0

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

    def _root(self, index):
        while index in self.alias:
            index = self.alias[index]
        return index

    def trained_size(self, index):
        """Elements of a trainable tensor."""
        return constant(self.model, self.tensors[index]).size

    def logits_size(self):
        """Number of logits."""
        return self._size(self._root(self.logits))

    def _is_constant(self, index):
        return constant(self.model, self.tensors[index]) is not None

    def _size(self, index):
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
            made.add(self._root(int(op.outputs[0])))
        read = set()
        for op in self.graph.operators[self.first :]:
            read |= {self._root(int(i)) for i in op.inputs if i >= 0}
        return sorted(made & read)

    def _plan(self):
        external = set(self.inputs) | (set(self.boundary) if self.first else set())
        for step, op in enumerate(self.graph.operators):
            if self.calls[step] is None:
                continue
            self.arena.use(f"T{int(op.outputs[0])}", step, self._size(int(op.outputs[0])))
            if self.calls[step].scratch:
                self.arena.use(f"Scratch{step}", step, self.calls[step].scratch)
            for index in (self._root(int(i)) for i in op.inputs if i >= 0):
                late = step >= self.first and index in external
                if index in self.inputs or late or self._is_constant(index):
                    continue
                self.arena.use(f"T{index}", step)
        if self.first:
            for index in self.boundary:
                if index not in self.inputs:
                    self.arena.use(f"T{index}", self.first - 1)
        end = len(self.graph.operators)
        for index in (self._root(self.logits), self._root(self.output)):
            if f"T{index}" in self.arena.buffers:
                self.arena.use(f"T{index}", end)

    # Text -----------------------------------------------------------------------------------------

    def files(self):
        """`{file name: text}`."""
        functions = self._functions()
        state = self._state() if self.zo else ""
        interface = self._interface()
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
            inputs=sum(self._size(i) for i in self.inputs),
            outputs=self._size(self.output),
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
        index = self._root(index)
        if step >= self.first > 0 and index in self.boundary:
            before = self.boundary[: self.boundary.index(index)]
            return f"features + {sum(aligned(self._size(i)) for i in before)}"
        if index in self.inputs:
            before = self.inputs[: self.inputs.index(index)]
            return f"input + {sum(self._size(i) for i in before)}"
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
                size = self._size(index)
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

    def _state(self):
        zo, fields, size = self.zo, [], 48
        self.extra_bytes = 0
        tensors, initial = [], []
        for k, item in enumerate(zo.tensors):
            values = constant(self.model, self.tensors[item.tensor])
            bias = values.dtype == np.int32
            kind = "int32_t" if bias else "int8_t"
            fields.append(f"  alignas(4) {kind} w{k}[{values.size}];\n")
            size += aligned4(values.nbytes)
            initial.append((k, values))
            if zo.beta_q8:
                fields.append(f"  int32_t m{k}[{values.size}];\n")
                size += 4 * values.size
                self.extra_bytes += 4 * values.size
            shadow = zo.update == "int16_shadow" and not bias
            if shadow:
                fields.append(f"  alignas(4) int16_t s{k}[{values.size}];\n")
                size += aligned4(2 * values.size)
                self.extra_bytes += aligned4(2 * values.size)
            parts = [
                "nullptr" if bias else f"state.w{k}",
                f"state.w{k}" if bias else "nullptr",
                f"state.m{k}" if zo.beta_q8 else "nullptr",
                f"state.s{k}" if shadow else "nullptr",
            ]
            tensors.append(
                f"    {{{', '.join(parts)}, {values.size}, {item.unit}, {item.limit}}},\n"
            )
            self.constants[f"kInitial{k}"] = values.ravel()
        self.initial = initial
        self.state_bytes = -(-size // 8) * 8
        self.magic = zlib.crc32(repr(zo).encode(), zlib.crc32(b"zo"))
        rates = "".join(f"    {{{q}, {lr}u, {raw}u}},\n" for q, lr, raw in zo.rates)
        levels = ", ".join(str(q) for q, _, _ in zo.rates)
        estimators = ("kOneSided", "kLeaveOneOut", "kTwoSided")
        return (
            "// All that training changes.\nstruct State {\n  uint32_t magic;\n"
            "  uint32_t reserved;\n  ZoState zo;\n  QSchedulerState scheduler;\n"
            f"{''.join(fields)}}};\nState state;\n"
            f'static_assert(sizeof(State) == {self.state_bytes}, "model.h states the size");\n\n'
            f"const ZoTensor kTensors[] = {{\n{''.join(tensors)}}};\n"
            f"const ZoRate kRates[] = {{\n{rates}}};\n"
            f"const int32_t kLevels[] = {{{levels}}};\n"
            f"const ZoConfig kConfig = {{kTensors, {len(zo.tensors)}, kRates, {len(zo.rates)}, "
            f"{zo.seed}u, {zo.mu}, ZoEstimator::{estimators[zo.estimator]},\n    "
            f"{str(zo.rms).lower()}, {zo.beta_q8}, {zo.total_steps}}};\n"
            f"const QSchedulerConfig kSchedule = {{kLevels, {len(zo.rates)}, {zo.patience}, "
            f"{zo.tau}, {str(zo.maximize).lower()}}};\n"
            "ZoResult result;\nconst int8_t* last_logits;\n\n"
        )

    def _interface(self):
        prepare = "RunPrefix(input, all_features[0]);\n  " if self.first else ""
        feed = "all_features[0]" if self.first else "input"
        infer = (
            "int model_infer(const int8_t* input, int8_t* logits) {\n  "
            f"{prepare}RunToLogits({feed});\n"
            f"  memcpy(logits, RunToOutput({feed}), MODEL_OUTPUT_SIZE);\n  return 0;\n}}\n"
        )
        if not self.zo:
            return f'extern "C" {{\n\nvoid model_init(void) {{}}\n\n{infer}\n}}  // extern "C"\n'
        reset = "".join(
            f"  memcpy(state.w{k}, model_data::kInitial{k}, {v.nbytes});\n" for k, v in self.initial
        )
        crcs = "".join(f"  crc = Crc32(state.w{k}, {v.nbytes}, crc);\n" for k, v in self.initial)
        classes = self._size(self._root(self.logits))
        if self.first:
            gather = "    RunPrefix(inputs[i], all_features[i]);\n"
            run = "all_features[sample]"
        else:
            gather, run = "", "static_cast<const int8_t* const*>(context)[sample]"
        return f"""\
namespace {{

const int8_t* RunSample(void* context, int32_t sample) {{
  (void)context;
  last_logits = RunToLogits({run});
  return last_logits;
}}

}}  // namespace

extern "C" {{

void model_init(void) {{
  state.magic = {self.magic:#x}u;
  state.scheduler = QSchedulerState{{0, 0, 0, 0}};
{reset}  ZoStart(kConfig, &state.zo);
}}

{infer}
int model_train_batch(const int8_t* const* inputs, const int32_t* labels, int32_t count) {{
  if (count < 1 || count > MODEL_MAX_BATCH) return -1;
  for (int32_t i = 0; i < count; ++i) {{
    if (labels[i] < 0 || labels[i] >= {classes}) return -1;
{gather}  }}
  ZoBatch batch = {{RunSample, const_cast<int8_t**>(const_cast<const int8_t**>(inputs)), count,
                   {classes}, labels, nullptr, {self.zo.loss_multiplier}}};
  const int32_t q = QSchedulerQ(kSchedule, state.scheduler);
  return ZoStep(kConfig, batch, q, &state.zo, &result) ? 1 : -1;
}}

int model_train_step(const int8_t* input, int32_t label) {{
  return model_train_batch(&input, &label, 1);
}}

const int8_t* model_logits(void) {{ return last_logits; }}
int64_t model_loss(void) {{ return result.base; }}
int32_t model_end_epoch(int64_t metric) {{
  return QSchedulerUpdate(kSchedule, metric, &state.scheduler);
}}
void model_set_decay(int32_t) {{}}

{STATE_FUNCTIONS}
uint32_t model_state_crc(void) {{
  uint32_t crc = 0;
{crcs}  return crc;
}}

}}  // extern "C"
"""


def aligned4(size):
    """`size` rounded up to whole words."""
    return -(-int(size) // 4) * 4
