// Requantisation and update steps with the rounding chosen once per layer instead of per value, and
// the range of values that round to no step at all, which most values of an update are in.
#ifndef TFLM_TRAIN_MICRO_OPS_ARMV6M_ROUNDING_H_
#define TFLM_TRAIN_MICRO_OPS_ARMV6M_ROUNDING_H_

#include <cstdint>

#include "micro_ops/core/niti_update.h"

namespace tflm_train {

// Calls loop(requantize function) with a function specialised to the rounding TFLM uses.
template <class Loop>
inline void WithRequantize(const Requantize& params, const Loop& loop) {
  if (params.rounding == Rounding::kTflm && params.shift >= 2) {
    const int32_t rest = params.shift - 1;
    const int32_t mask = static_cast<int32_t>((1u << rest) - 1u);
    const int32_t half = mask >> 1;
    const int32_t low = params.low, high = params.high;
    loop([=](int32_t value, int32_t) {
      const int32_t h = (value >> 1) + (value & 1);
      const int32_t threshold = half + static_cast<int32_t>(static_cast<uint32_t>(h) >> 31);
      return static_cast<int8_t>(Clamp((h >> rest) + ((h & mask) > threshold ? 1 : 0), low, high));
    });
  } else {
    loop([&](int32_t value, int32_t index) { return RequantizeValue(params, value, index); });
  }
}

// Values low .. high round to a step of 0 whatever their edge.
struct DeadZone {
  int32_t low, high;
  bool Holds(int32_t value) const {
    return static_cast<uint32_t>(value - low) <= static_cast<uint32_t>(high - low);
  }
};
DeadZone FindDeadZone(const UpdateParams& params);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_ARMV6M_ROUNDING_H_
