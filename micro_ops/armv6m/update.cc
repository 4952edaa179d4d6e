#include "micro_ops/armv6m/update.h"

namespace tflm_train {

void UpdateScoreRow(const ScoreView& view, int32_t row, int32_t row_size, const int8_t* weights,
                    const int32_t* gradient, const UpdateParams& params, const DeadZone& zone,
                    bool bounded, int32_t* rank, ScoreCounts* counts) {
  if (view.storage != ScoreStorage::kDense || !bounded) {
    UpdateScoredRow(
        view, row, row_size, weights, gradient, params,
        [&](int32_t product) { return zone.Holds(product); }, rank, counts);
    return;
  }
  // The bounds in registers: most edges leave after the comparison.
  const uint32_t low = static_cast<uint32_t>(zone.low);
  const uint32_t span = static_cast<uint32_t>(zone.high) - low;
  const int32_t first = row * row_size;
  for (int32_t i = 0; i < row_size; ++i) {
    const int32_t product = weights[i] * gradient[i];
    if (static_cast<uint32_t>(product) - low <= span) continue;
    PriotApplyStep(view, first + i, UpdateStep(params, product, first + i), counts);
  }
}

}  // namespace tflm_train
