// Score updates that pass over edges whose step is zero.
#ifndef TFLM_TRAIN_MICRO_OPS_ARMV6M_UPDATE_H_
#define TFLM_TRAIN_MICRO_OPS_ARMV6M_UPDATE_H_

#include "micro_ops/trainer/dead_zone.h"
#include "micro_ops/trainer/scored_bits.h"

namespace tflm_train {

// With at most so many output positions weight * gradient fits into 32 bits.
constexpr int32_t kBoundedPositions = 1000;

// PriotUpdateRow with its bits. `zone` is that of `params`; `bounded`: no product can overflow.
void UpdateScoreRow(const ScoreView& view, int32_t row, int32_t row_size, const int8_t* weights,
                    const int32_t* gradient, const UpdateParams& params, const DeadZone& zone,
                    bool bounded, int32_t* rank, ScoreCounts* counts);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_ARMV6M_UPDATE_H_
