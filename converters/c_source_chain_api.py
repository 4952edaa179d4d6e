"""The C functions of a chain: step, state, schedule."""

from converters.c_source_text import STATE_FUNCTIONS


def chain_interface(source):
    """The functions of model.h for a `ChainSource`."""
    last = len(source.layers) - 1
    classes = source.layers[-1].out_size
    infer = (
        "int model_infer(const int8_t* input, int8_t* logits) {\n"
        "  Forward(input, state.step);\n"
        f"  memcpy(logits, At(kOutput{last}), MODEL_OUTPUT_SIZE);\n  return 0;\n}}\n"
    )
    if not source.trains:
        text = f"void model_init(void) {{ state.magic = {source.magic:#x}u; }}\n\n" + infer
        return 'extern "C" {\n\n' + text + '\n}  // extern "C"\n'
    reset = []
    for name, values in source.trained:
        constant = "k" + name[0].upper() + name[1:]
        if constant in source.constants:
            reset.append(f"  memcpy(state.{name}, model_data::{constant}, {values.size});\n")
        else:
            reset.append(f"  memset(state.{name}, 0, {values.size});\n")
    crcs = "".join(
        f"  crc = Crc32(state.{n}, {v.size}, crc);\n" for n, v in source.trained if v.size
    )
    return (
        'extern "C" {\n\n'
        f"void model_init(void) {{\n  state.magic = {source.magic:#x}u;\n  state.step = 0;\n"
        "  state.decay = 0;\n"
        + "".join(reset)
        + "}\n\n"
        + infer
        + f"""
int model_train_step(const int8_t* input, int32_t label) {{
  if (label < 0 || label >= MODEL_OUTPUT_SIZE) return -1;
  const uint32_t step = state.step++;
  Forward(input, step);
  if (!NitiCrossEntropyError(At(kOutput{last}), {classes}, {source.chain.logits_exponent()}, label,
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
