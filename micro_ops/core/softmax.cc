#include "micro_ops/core/softmax.h"

namespace tflm_train {

int32_t SoftmaxReciprocal(int32_t sum, int32_t* exponent) {
  const int32_t headroom = CountLeadingZeros(static_cast<uint32_t>(sum));
  *exponent = 12 - headroom + 31 - 8;
  return OneOverOnePlus(
      static_cast<int32_t>((static_cast<uint32_t>(sum) << headroom) - (uint32_t{1} << 31)));
}

void SoftmaxInt8(const SoftmaxParams& params, int32_t rows, const int8_t* input, int8_t* output) {
  const int32_t depth = params.depth;
  for (int32_t row = 0; row < rows; ++row, input += depth, output += depth) {
    int32_t highest = INT8_MIN;
    for (int32_t c = 0; c < depth; ++c) {
      if (input[c] > highest) highest = input[c];
    }
    int32_t sum = 0;
    for (int32_t c = 0; c < depth; ++c) {
      const int32_t diff = input[c] - highest;
      if (diff >= params.diff_min) sum += RoundingShiftRight(SoftmaxExp(params, diff), 12);
    }
    int32_t exponent;
    const int32_t scale = SoftmaxReciprocal(sum, &exponent);
    for (int32_t c = 0; c < depth; ++c) {
      const int32_t diff = input[c] - highest;
      int32_t value = INT8_MIN;
      if (diff >= params.diff_min) {
        value += RoundingShiftRight(DoublingHighMul(scale, SoftmaxExp(params, diff)), exponent);
      }
      output[c] = static_cast<int8_t>(Clamp(value, INT8_MIN, INT8_MAX));
    }
  }
}

}  // namespace tflm_train
