// From the scales in a file to the integers kernels use, with TFLM's own choice of float and double
// at every step: one different rounding here is a different output there.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_QUANTIZE_MULTIPLIER_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_QUANTIZE_MULTIPLIER_H_

#include <cmath>
#include <cstdint>

namespace tflm_train {

struct Multiplier {
  int32_t multiplier;
  int32_t shift;
};

// value = multiplier * 2^(shift - 31), multiplier in [2^30, 2^31); values below 2^-32 become 0.
// Shifts above 30 are the caller's to refuse.
inline Multiplier QuantizeMultiplier(double value) {
  if (value == 0.0) return {0, 0};
  int shift;
  const double q = std::frexp(value, &shift);
  int64_t fixed = static_cast<int64_t>(std::round(q * (int64_t{1} << 31)));
  if (fixed == int64_t{1} << 31) {
    fixed /= 2;
    ++shift;
  }
  if (shift < -31) return {0, 0};
  return {static_cast<int32_t>(fixed), shift};
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_QUANTIZE_MULTIPLIER_H_
