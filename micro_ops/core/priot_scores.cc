#include "micro_ops/core/priot_scores.h"

namespace tflm_train {

void PriotMaskRow(const ScoreView& view, int32_t row, int32_t row_size, const int8_t* weights,
                  int32_t* rank, int8_t* masked) {
  for (int32_t i = 0; i < row_size; ++i) masked[i] = weights[i];
  VisitScored(view, row, row_size, rank, [&](int32_t edge, int32_t score) {
    if (view.scores[score] < view.threshold) masked[edge] = 0;
  });
}

void PriotUpdateRow(const ScoreView& view, int32_t row, int32_t row_size, const int8_t* weights,
                    const int32_t* gradient, const UpdateParams& params, int32_t* rank,
                    ScoreCounts* counts) {
  VisitScored(view, row, row_size, rank, [&](int32_t edge, int32_t score) {
    const int32_t product = SaturatingProduct(weights[edge], gradient[edge]);
    const int32_t step = UpdateStep(params, product, row * row_size + edge);
    PriotApplyStep(view, score, step, counts);
  });
}

void PriotSkipRow(const ScoreView& view, int32_t row, int32_t row_size, int32_t* rank) {
  if (view.storage == ScoreStorage::kIndexList) {
    *rank += view.row_counts[row];
  } else if (view.storage == ScoreStorage::kBitmask) {
    VisitScored(view, row, row_size, rank, [](int32_t, int32_t) {});
  }
}

int32_t PriotCountPruned(const ScoreView& view, int32_t rows, int32_t row_size) {
  int32_t rank = 0, pruned = 0;
  for (int32_t row = 0; row < rows; ++row) {
    VisitScored(view, row, row_size, &rank, [&](int32_t, int32_t score) {
      pruned += view.scores[score] < view.threshold ? 1 : 0;
    });
  }
  return pruned;
}

}  // namespace tflm_train
