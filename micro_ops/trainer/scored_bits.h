// VisitScored with bitmasks read eight edges at a time: most of PRIOT-S's edges have no score.
#ifndef TFLM_TRAIN_MICRO_OPS_TRAINER_SCORED_BITS_H_
#define TFLM_TRAIN_MICRO_OPS_TRAINER_SCORED_BITS_H_

#include <cstdint>

#include "micro_ops/core/priot_scores.h"

namespace tflm_train {

// Calls visit(bits, edge in row of the lowest one) for the bytes of a row's mask.
template <class Visit>
inline void ForEachMaskByte(const ScoreView& view, int32_t row, int32_t row_size,
                            const Visit& visit) {
  const int32_t begin = row * row_size, end = begin + row_size;
  for (int32_t bit = begin; bit < end;) {
    const int32_t skip = bit & 7;
    const int32_t count = end - bit < 8 - skip ? end - bit : 8 - skip;
    uint32_t bits = static_cast<uint32_t>(view.scored[bit >> 3]) >> skip;
    if (count < 8) bits &= (1u << count) - 1u;
    visit(bits, bit - begin);
    bit += count;
  }
}

template <class Visit>
inline void VisitScoredFast(const ScoreView& view, int32_t row, int32_t row_size, int32_t* rank,
                            const Visit& visit) {
  if (view.storage != ScoreStorage::kBitmask) {
    VisitScored(view, row, row_size, rank, visit);
    return;
  }
  int32_t next = *rank;
  ForEachMaskByte(view, row, row_size, [&](uint32_t bits, int32_t edge) {
    for (; bits != 0; bits >>= 1, ++edge) {
      if (bits & 1u) visit(edge, next++);
    }
  });
  *rank = next;
}

inline void SkipScoredFast(const ScoreView& view, int32_t row, int32_t row_size, int32_t* rank) {
  if (view.storage != ScoreStorage::kBitmask) {
    PriotSkipRow(view, row, row_size, rank);
    return;
  }
  int32_t count = 0;
  ForEachMaskByte(view, row, row_size, [&](uint32_t bits, int32_t) {
    for (; bits != 0; bits &= bits - 1u) ++count;
  });
  *rank += count;
}

// The score step of a row: PriotUpdateRow with its bits.
template <class IsZero>
inline void UpdateScoredRow(const ScoreView& view, int32_t row, int32_t row_size,
                            const int8_t* weights, const int32_t* gradient,
                            const UpdateParams& params, const IsZero& is_zero, int32_t* rank,
                            ScoreCounts* counts) {
  VisitScoredFast(view, row, row_size, rank, [&](int32_t edge, int32_t score) {
    const int32_t product = SaturatingProduct(weights[edge], gradient[edge]);
    if (is_zero(product)) return;
    PriotApplyStep(view, score, UpdateStep(params, product, row * row_size + edge), counts);
  });
}

// Calls add(edge) for the pruned edges of a row, to take them out of sums over all edges.
template <class Add>
inline void ForEachPruned(const ScoreView& view, int32_t row, int32_t row_size, int32_t* rank,
                          const Add& add) {
  VisitScoredFast(view, row, row_size, rank, [&](int32_t edge, int32_t score) {
    if (view.scores[score] < view.threshold) add(edge);
  });
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TRAINER_SCORED_BITS_H_
