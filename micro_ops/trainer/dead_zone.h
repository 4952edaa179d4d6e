// The range of values that round to no step at all, which most values of an update are in.
#ifndef TFLM_TRAIN_MICRO_OPS_TRAINER_DEAD_ZONE_H_
#define TFLM_TRAIN_MICRO_OPS_TRAINER_DEAD_ZONE_H_

#include <cstdint>

#include "micro_ops/core/niti_update.h"

namespace tflm_train {

// Values low .. high give a step of 0 whatever their edge.
struct DeadZone {
  int32_t low, high;
  bool Holds(int32_t value) const {
    return static_cast<uint32_t>(value) - static_cast<uint32_t>(low) <=
           static_cast<uint32_t>(high - low);
  }
};
DeadZone FindDeadZone(const UpdateParams& params);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TRAINER_DEAD_ZONE_H_
