// int8 softmax as TFLM's reference kernel computes it, bit for bit; output scale 1/256, zero point
// -128.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_SOFTMAX_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_SOFTMAX_H_

#include <cstdint>

#include "micro_ops/core/fixed_point.h"

namespace tflm_train {

// More would overflow the sum of exponentials.
constexpr int32_t kSoftmaxMaxDepth = 4095;

struct SoftmaxParams {
  int32_t depth;             // 1 .. kSoftmaxMaxDepth
  int32_t input_multiplier;  // input scale * beta as a multiplier of 5 integer bits,
  int32_t input_left_shift;  // shifted left by 0 .. 31
  int32_t diff_min;          // differences below contribute nothing; -248 .. 0
};

// exp(scale * beta * diff) with no integer bits, for diff_min <= diff <= 0.
inline int32_t SoftmaxExp(const SoftmaxParams& params, int32_t diff) {
  const int32_t shifted =
      static_cast<int32_t>(static_cast<uint32_t>(diff) << params.input_left_shift);
  return ExpOnNegative(DoublingHighMul(shifted, params.input_multiplier), 5);
}

// 1 / sum with no integer bits, to be shifted right by *exponent more than a product of such.
// sum: of exponentials rounded to 12 integer bits.
int32_t SoftmaxReciprocal(int32_t sum, int32_t* exponent);

void SoftmaxInt8(const SoftmaxParams& params, int32_t rows, const int8_t* input, int8_t* output);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_SOFTMAX_H_
