// Ops that move bytes: PAD and CONCATENATION.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_DATA_MOVEMENT_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_DATA_MOVEMENT_H_

#include <cstdint>

#include "micro_ops/core/elementwise.h"

namespace tflm_train {

struct PadParams {
  int32_t rank;
  int32_t input_size[kMaxRank];
  int32_t before[kMaxRank], after[kMaxRank];  // all >= 0
  int8_t value;
};

void PadInt8(const PadParams& params, const int8_t* input, int8_t* output);

// Copies one input of a concatenation: `outer` runs of `run` bytes, each to the next output row of
// `output_run` bytes. output points at the input's place in the first row.
void ConcatenateInt8(int32_t outer, int32_t run, int32_t output_run, const int8_t* input,
                     int8_t* output);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_DATA_MOVEMENT_H_
