#include "micro_ops/trainer/dead_zone.h"

namespace tflm_train {
namespace {

// Largest magnitude of the sign that rounds to 0, for a rounding that never falls as values grow.
int32_t LargestZero(const UpdateParams& params, int32_t sign) {
  int32_t zero = 0, beyond = int32_t{1} << 30;
  if (RoundShift(sign * beyond, params.shift, params.rounding, 0) == 0) return beyond;
  while (beyond - zero > 1) {
    const int32_t middle = zero + (beyond - zero) / 2;
    (RoundShift(sign * middle, params.shift, params.rounding, 0) == 0 ? zero : beyond) = middle;
  }
  return zero;
}

}  // namespace

DeadZone FindDeadZone(const UpdateParams& params) {
  if (params.shift == 0 || params.rounding == Rounding::kStochastic) return {0, 0};
  if (params.rounding == Rounding::kPseudoStochastic) {
    // Below the high half of the dropped bits nothing is rounded away from zero.
    const int32_t largest = static_cast<int32_t>((1u << (params.shift / 2)) - 1u);
    return {-largest, largest};
  }
  return {-LargestZero(params, -1), LargestZero(params, 1)};
}

}  // namespace tflm_train
