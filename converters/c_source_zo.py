"""Settings, state and C functions of zeroth-order training in generated code."""

import dataclasses
import zlib

import numpy as np

from converters.c_source_text import STATE_FUNCTIONS
from converters.flatbuffer import constant


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


def zo_state(source):
    """The state structure and the tables of a `GraphSource` that trains."""
    zo, fields, size = source.zo, [], 48
    source.extra_bytes = 0
    tensors, initial = [], []
    for k, item in enumerate(zo.tensors):
        values = constant(source.model, source.tensors[item.tensor])
        bias = values.dtype == np.int32
        kind = "int32_t" if bias else "int8_t"
        fields.append(f"  alignas(4) {kind} w{k}[{values.size}];\n")
        size += aligned4(values.nbytes)
        initial.append((k, values))
        if zo.beta_q8:
            fields.append(f"  int32_t m{k}[{values.size}];\n")
            size += 4 * values.size
            source.extra_bytes += 4 * values.size
        shadow = zo.update == "int16_shadow" and not bias
        if shadow:
            fields.append(f"  alignas(4) int16_t s{k}[{values.size}];\n")
            size += aligned4(2 * values.size)
            source.extra_bytes += aligned4(2 * values.size)
        parts = [
            "nullptr" if bias else f"state.w{k}",
            f"state.w{k}" if bias else "nullptr",
            f"state.m{k}" if zo.beta_q8 else "nullptr",
            f"state.s{k}" if shadow else "nullptr",
        ]
        tensors.append(f"    {{{', '.join(parts)}, {values.size}, {item.unit}, {item.limit}}},\n")
        source.constants[f"kInitial{k}"] = values.ravel()
    source.initial = initial
    source.state_bytes = -(-size // 8) * 8
    source.magic = zlib.crc32(repr(zo).encode(), zlib.crc32(b"zo"))
    rates = "".join(f"    {{{q}, {lr}u, {raw}u}},\n" for q, lr, raw in zo.rates)
    levels = ", ".join(str(q) for q, _, _ in zo.rates)
    estimators = ("kOneSided", "kLeaveOneOut", "kTwoSided")
    most = max(q for q, _, _ in zo.rates)
    leave_one_out = f"int64_t losses[{most}];\n" if zo.estimator == 1 else ""
    source.result_bytes = 24 + 4 * most + (8 * most if leave_one_out else 0)
    return (
        "// All that training changes.\nstruct State {\n  uint32_t magic;\n"
        "  uint32_t reserved;\n  ZoState zo;\n  QSchedulerState scheduler;\n"
        f"{''.join(fields)}}};\nState state;\n"
        f'static_assert(sizeof(State) == {source.state_bytes}, "model.h states the size");\n\n'
        f"const ZoTensor kTensors[] = {{\n{''.join(tensors)}}};\n"
        f"const ZoRate kRates[] = {{\n{rates}}};\n"
        f"const int32_t kLevels[] = {{{levels}}};\n"
        f"{leave_one_out}const ZoConfig kConfig = {{kTensors, {len(zo.tensors)}, kRates, "
        f"{len(zo.rates)}, "
        f"{zo.seed}u, {zo.mu}, ZoEstimator::{estimators[zo.estimator]},\n    "
        f"{str(zo.rms).lower()}, {zo.beta_q8}, {zo.total_steps}, "
        f"{'losses' if leave_one_out else 'nullptr'}}};\n"
        f"const QSchedulerConfig kSchedule = {{kLevels, {len(zo.rates)}, {zo.patience}, "
        f"{zo.tau}, {str(zo.maximize).lower()}}};\n"
        f"int32_t coefficients[{most}];\nZoResult result = {{0, coefficients, 0}};\n"
        "const int8_t* last_logits;\n\n"
    )


def graph_interface(source):
    """The functions of model.h for a `GraphSource`."""
    prepare = "RunPrefix(input, all_features[0]);\n  " if source.first else ""
    feed = "all_features[0]" if source.first else "input"
    infer = (
        "int model_infer(const int8_t* input, int8_t* logits) {\n  "
        f"{prepare}RunToLogits({feed});\n"
        f"  memcpy(logits, RunToOutput({feed}), MODEL_OUTPUT_SIZE);\n  return 0;\n}}\n"
    )
    if not source.zo:
        return f'extern "C" {{\n\nvoid model_init(void) {{}}\n\n{infer}\n}}  // extern "C"\n'
    reset = "".join(
        f"  memcpy(state.w{k}, model_data::kInitial{k}, {v.nbytes});\n" for k, v in source.initial
    )
    crcs = "".join(f"  crc = Crc32(state.w{k}, {v.nbytes}, crc);\n" for k, v in source.initial)
    classes = source.size_of(source.root(source.logits))
    if source.first:
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
  state.magic = {source.magic:#x}u;
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
                   {classes}, labels, nullptr, nullptr, {source.zo.loss_multiplier}}};
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
