// Requantisation with the rounding's constants worked out once per layer.
#ifndef TFLM_TRAIN_MICRO_OPS_ARMV6M_ROUNDING_H_
#define TFLM_TRAIN_MICRO_OPS_ARMV6M_ROUNDING_H_

#include <cstdint>

#include "micro_ops/core/niti_rounding.h"

namespace tflm_train {

// RequantizeValue with the constants of TFLM's rounding worked out beforehand.
class Requantizer {
 public:
  explicit Requantizer(const Requantize& params)
      : params_(params),
        fast_(params.rounding == Rounding::kTflm && params.shift >= 2),
        rest_(fast_ ? params.shift - 1 : 0),
        mask_(static_cast<int32_t>((1u << rest_) - 1u)) {}

  // Values of elements index .. index + count - 1.
  void Block(const int32_t* values, int32_t count, int32_t index, int8_t* to) const {
    const int32_t* const end = values + count;
    if (!fast_) {
      while (values < end) *to++ = RequantizeValue(params_, *values++, index++);
      return;
    }
    const int32_t rest = rest_, mask = mask_, low = params_.low, high = params_.high;
    while (values < end) {
      // Half of the rounding down to nearest, then away from zero: a negative value is moved by one
      // before half a step is added.
      int32_t h = (*values + 1) >> 1;
      h += (h >> 31) + ((mask + 1) >> 1);
      *to++ = static_cast<int8_t>(Clamp(h >> rest, low, high));
      ++values;
    }
  }
  int8_t operator()(int32_t value, int32_t index) const {
    int8_t result;
    Block(&value, 1, index, &result);
    return result;
  }

 private:
  const Requantize& params_;
  bool fast_;
  int32_t rest_, mask_;
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_ARMV6M_ROUNDING_H_
