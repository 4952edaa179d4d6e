// PRIOT scores: one int8 per edge (or per scored edge, PRIOT-S) that decides whether the frozen
// weight of the edge takes part. docs/priot_arithmetic.md, "Masks"; PRIOT paper, Section III.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_PRIOT_SCORES_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_PRIOT_SCORES_H_

#include <cstdint>

#include "micro_ops/core/niti_update.h"

namespace tflm_train {

// The values are part of the file format (docs/priot_format.md).
enum class ScoreStorage : int32_t {
  kDense = 0,      // A score for every edge.
  kBitmask = 1,    // One bit per edge (least significant first), packed scores of the set bits.
  kIndexList = 2,  // Per row a count and the places of its scored edges, packed scores.
};

// An edge is pruned iff it has a score and the score is below the threshold: an edge without a
// score is never pruned. A row is an output channel (a whole depthwise layer is one row).
struct ScoreView {
  int8_t* scores;
  const uint8_t* scored;       // kBitmask.
  const uint16_t* indices;     // kIndexList, ascending in a row.
  const uint16_t* row_counts;  // kIndexList.
  int32_t threshold;
  ScoreStorage storage;
};

struct ScoreCounts {
  int32_t pruned;    // Edges that fell below the threshold in this step.
  int32_t restored;  // Edges that came back.
  int32_t at_limit;  // Updated scores that stand at -128 or 127.
};

// Calls visit(edge in row, index of its score) for each scored edge of a row. Rows must be visited
// in order from 0: `rank` carries the index of the next packed score and starts at 0.
template <class Visit>
inline void VisitScored(const ScoreView& view, int32_t row, int32_t row_size, int32_t* rank,
                        const Visit& visit) {
  switch (view.storage) {
    case ScoreStorage::kDense:
      for (int32_t i = 0; i < row_size; ++i) visit(i, row * row_size + i);
      return;
    case ScoreStorage::kBitmask:
      for (int32_t i = 0, bit = row * row_size; i < row_size; ++i, ++bit) {
        if ((view.scored[bit >> 3] >> (bit & 7)) & 1) visit(i, (*rank)++);
      }
      return;
    case ScoreStorage::kIndexList:
      for (int32_t n = view.row_counts[row]; n > 0; --n, ++*rank) {
        visit(view.indices[*rank], *rank);
      }
      return;
  }
}

// score <- clamp(score - step, -128, 127), with the bookkeeping.
inline void PriotApplyStep(const ScoreView& view, int32_t score, int32_t step,
                           ScoreCounts* counts) {
  if (step == 0) return;
  const int32_t before = view.scores[score];
  const int32_t after = Clamp(before - step, -128, 127);
  view.scores[score] = static_cast<int8_t>(after);
  counts->pruned += before >= view.threshold && after < view.threshold ? 1 : 0;
  counts->restored += before < view.threshold && after >= view.threshold ? 1 : 0;
  counts->at_limit += after == -128 || after == 127 ? 1 : 0;
}

// Copies a row of weights to `masked` with its pruned edges as zeros.
void PriotMaskRow(const ScoreView& view, int32_t row, int32_t row_size, const int8_t* weights,
                  int32_t* rank, int8_t* masked);

// The score step of one row: dS = saturate(weight * gradient),
// score <- clamp(score - clamp(round_shift(dS, shift), +-127), -128, 127).
void PriotUpdateRow(const ScoreView& view, int32_t row, int32_t row_size, const int8_t* weights,
                    const int32_t* gradient, const UpdateParams& params, int32_t* rank,
                    ScoreCounts* counts);
// Passes over a row whose gradient is zero.
void PriotSkipRow(const ScoreView& view, int32_t row, int32_t row_size, int32_t* rank);

// Edges of the layer that are pruned now.
int32_t PriotCountPruned(const ScoreView& view, int32_t rows, int32_t row_size);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_PRIOT_SCORES_H_
