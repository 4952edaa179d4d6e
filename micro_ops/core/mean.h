// int8 MEAN over any axes as TFLM's reference kernel computes it, bit for bit.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_MEAN_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_MEAN_H_

#include <cstdint>

#include "micro_ops/core/elementwise.h"

namespace tflm_train {

struct MeanParams {
  // Dimensions that stay and dimensions that are averaged, each with its size and step in the
  // input, the slowest first.
  int32_t kept_rank, reduced_rank;
  int32_t kept_size[kMaxRank], kept_step[kMaxRank];
  int32_t reduced_size[kMaxRank], reduced_step[kMaxRank];
  int32_t input_zero_point, output_zero_point;
  // Input scale / (output scale * number of averaged elements); MeanScale folds the number in.
  int32_t multiplier, shift;
};

// Fills sizes and steps; bit d of `axes` set means dimension d is averaged. rank <= kMaxRank.
void MakeMeanShape(const int32_t* dims, int32_t rank, uint32_t axes, MeanParams* params);

// Divides the multiplier of the scales by the number of averaged elements (at least 1).
void MeanScale(int32_t multiplier, int32_t shift, int32_t count, MeanParams* params);

void MeanInt8(const MeanParams& params, const int8_t* input, int8_t* output);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_MEAN_H_
