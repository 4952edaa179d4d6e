"""Pieces of C++ text: arrays, structures, the parts every generated file shares."""

import re

import numpy as np

_TYPES = {
    np.dtype(np.int8): "int8_t",
    np.dtype(np.uint8): "uint8_t",
    np.dtype(np.int16): "int16_t",
    np.dtype(np.uint16): "uint16_t",
    np.dtype(np.int32): "int32_t",
}

HEADER = "// Made by tflm-train export --format c; do not edit: export again.\n"


def identifier(name):
    """A C identifier close to `name`."""
    words = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_")
    return words if words and not words[0].isdigit() else f"n{words}"


def c_type(values):
    """C name of an array's element type."""
    return _TYPES[values.dtype]


def array(name, values):
    """Definition of a constant array, 16-byte aligned."""
    flat = np.asarray(values).ravel()
    lines = []
    for begin in range(0, max(len(flat), 1), 20):
        lines.append("    " + ", ".join(str(int(v)) for v in flat[begin : begin + 20]))
    body = ",\n".join(lines) if len(flat) else "    0"
    return f"alignas(16) const {c_type(flat)} {name}[{max(len(flat), 1)}] = {{\n{body}}};\n"


def declaration(name, values):
    """Declaration of what `array` defines."""
    flat = np.asarray(values).ravel()
    return f"extern const {c_type(flat)} {name}[{max(len(flat), 1)}];\n"


def data_files(arrays):
    """`model_data.h` and `model_data.cc` of `{name: values}`."""
    head = [HEADER, "// Constants, in flash.\n#ifndef MODEL_DATA_H_\n#define MODEL_DATA_H_\n\n"]
    head.append("#include <cstdint>\n\nnamespace model_data {\n\n")
    head.extend(declaration(name, values) for name, values in arrays.items())
    head.append("\n}  // namespace model_data\n\n#endif  // MODEL_DATA_H_\n")
    body = [HEADER, '#include "model_data.h"\n\nnamespace model_data {\n\n']
    body.append("\n".join(array(name, values) for name, values in arrays.items()))
    body.append("\n}  // namespace model_data\n")
    return {"model_data.h": "".join(head), "model_data.cc": "".join(body)}


def api_header(*, inputs, outputs, batch, state, arena, method, trains, scales):
    """`model.h`: the C interface, the same for every model."""
    return f"""{HEADER}
// C interface of the model. Nothing here allocates; one thread at a time.
#ifndef MODEL_H_
#define MODEL_H_

#include <stdint.h>

#define MODEL_METHOD "{method}"
#define MODEL_TRAINS {int(trains)}
#define MODEL_INPUT_SIZE {inputs}  /* int8 values of one sample, NHWC */
#define MODEL_OUTPUT_SIZE {outputs}  /* int8 logits */
#define MODEL_MAX_BATCH {batch}  /* samples of one training step */
#define MODEL_STATE_BYTES {state}
#define MODEL_ARENA_BYTES {arena}
/* real = (code - zero point) * scale */
#define MODEL_INPUT_SCALE {scales[0]:.9g}f
#define MODEL_INPUT_ZERO_POINT {scales[1]}
#define MODEL_OUTPUT_SCALE {scales[2]:.9g}f
#define MODEL_OUTPUT_ZERO_POINT {scales[3]}

#ifdef __cplusplus
extern "C" {{
#endif

/* Back to the exported weights and scores. Call once before anything else. */
void model_init(void);

/* One sample in, MODEL_OUTPUT_SIZE logits out. Returns 0. */
int model_infer(const int8_t* input, int8_t* logits);

#if MODEL_TRAINS
/* One step. 1: something was updated; 0: there was nothing to learn (the sample was right beyond
   doubt); -1: a label or count out of range. */
int model_train_step(const int8_t* input, int32_t label);
int model_train_batch(const int8_t* const* inputs, const int32_t* labels, int32_t count);

/* Of the last step: logits of its last forward pass before the update, and the loss it measured
   (zo: the batch's sum in 2^-16 bit; 0 for the other methods). */
const int8_t* model_logits(void);
int64_t model_loss(void);

/* Tells a schedule how validation went: the sum of the losses (or of right answers) as an integer.
   Returns the number of directions from now on, 0 for methods without. */
int32_t model_end_epoch(int64_t metric);

/* priot, niti: makes every update 2^shift times smaller. */
void model_set_decay(int32_t shift);

/* All that training changed, MODEL_STATE_BYTES, whole or in parts from the first on. Both return
   -1, and do nothing, when the part is out of range or the first one is of another model. */
int model_get_state(uint32_t offset, void* to, uint32_t size);
int model_set_state(uint32_t offset, const void* from, uint32_t size);

/* CRC-32 (zlib's) of the trained tensors, one after the other in the model's order. */
uint32_t model_state_crc(void);
#endif

#ifdef __cplusplus
}}
#endif

#endif /* MODEL_H_ */
"""


STATE_FUNCTIONS = """\
int model_get_state(uint32_t offset, void* to, uint32_t size) {
  if (offset > sizeof(state) || size > sizeof(state) - offset) return -1;
  memcpy(to, reinterpret_cast<const uint8_t*>(&state) + offset, size);
  return 0;
}

int model_set_state(uint32_t offset, const void* from, uint32_t size) {
  if (offset > sizeof(state) || size > sizeof(state) - offset) return -1;
  if (offset < sizeof(state.magic)) {
    // The first part must hold the whole number that names the model.
    uint32_t magic;
    if (offset != 0 || size < sizeof(magic)) return -1;
    memcpy(&magic, from, sizeof(magic));
    if (magic != state.magic) return -1;
  }
  memcpy(reinterpret_cast<uint8_t*>(&state) + offset, from, size);
  return 0;
}
"""
