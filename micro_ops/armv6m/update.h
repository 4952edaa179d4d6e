// Score updates that pass over edges whose step is zero.
#ifndef TFLM_TRAIN_MICRO_OPS_ARMV6M_UPDATE_H_
#define TFLM_TRAIN_MICRO_OPS_ARMV6M_UPDATE_H_

#include "micro_ops/trainer/dead_zone.h"
#include "micro_ops/trainer/scored_bits.h"

namespace tflm_train {

// PriotUpdateRow with its bits. `zone` is that of `params`.
inline void UpdateScoreRow(const ScoreView& view, int32_t row, int32_t row_size,
                           const int8_t* weights, const int32_t* gradient,
                           const UpdateParams& params, const DeadZone& zone, int32_t* rank,
                           ScoreCounts* counts) {
  UpdateScoredRow(
      view, row, row_size, weights, gradient, params,
      [&](int32_t product) { return zone.Holds(product); }, rank, counts);
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_ARMV6M_UPDATE_H_
