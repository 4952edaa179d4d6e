// Weights seen through scores, four edges a word.
#ifndef TFLM_TRAIN_MICRO_OPS_ARMV6M_MASKS_H_
#define TFLM_TRAIN_MICRO_OPS_ARMV6M_MASKS_H_

#include <cstdint>

#include "micro_ops/core/priot_scores.h"

namespace tflm_train {

// Row `row` of the weights with pruned edges as zeros: in `masked`, or the weights themselves when
// `view` is null. Rows must be asked for in order, as PriotMaskRow needs it.
const int8_t* MaskedRow(const ScoreView* view, int32_t row, int32_t row_size, const int8_t* weights,
                        int32_t* rank, int8_t* masked);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_ARMV6M_MASKS_H_
