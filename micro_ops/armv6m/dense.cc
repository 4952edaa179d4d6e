// Dense layers of a training step on Cortex-M0+: only nonzero inputs and errors are visited.
#include "micro_ops/armv6m/masks.h"
#include "micro_ops/armv6m/rounding.h"
#include "micro_ops/core/niti_loops.h"
#include "micro_ops/trainer/dead_zone.h"
#include "micro_ops/trainer/scored_bits.h"
#include "micro_ops/trainer/train_kernels.h"

namespace tflm_train {
namespace {

// Numbers of the nonzero values; there are at most 65,536 (the generator sees to it).
int32_t ListNonzero(const int8_t* x, int32_t size, uint16_t* list) {
  int32_t count = 0;
  for (int32_t i = 0; i < size; ++i) {
    if (x[i] != 0) list[count++] = static_cast<uint16_t>(i);
  }
  return count;
}

int32_t DotListed(const int8_t* x, const int8_t* w, const uint16_t* list, int32_t count) {
  int32_t sum = 0;
  for (const uint16_t* end = list + count; list < end; ++list) sum += x[*list] * w[*list];
  return sum;
}

int32_t MaskedDotListed(const int8_t* x, const int8_t* w, const int8_t* scores, int32_t threshold,
                        const uint16_t* list, int32_t count) {
  int32_t sum = 0;
  for (const uint16_t* end = list + count; list < end; ++list) {
    const uint32_t i = *list;
    if (scores[i] >= threshold) sum += x[i] * w[i];
  }
  return sum;
}

// An error that is not zero, with the first edge of its row.
struct ErrorRow {
  int32_t error;
  int32_t first;
};

bool IsDense(const ScoreView* scores) {
  return scores != nullptr && scores->storage == ScoreStorage::kDense;
}

int32_t ErrorSum(const ErrorRow* rows, int32_t count, const int8_t* weights) {
  int32_t sum = 0;
  for (const ErrorRow* end = rows + count; rows < end; ++rows) {
    sum += rows->error * weights[rows->first];
  }
  return sum;
}

int32_t MaskedErrorSum(const ErrorRow* rows, int32_t count, const int8_t* weights,
                       const int8_t* scores, int32_t threshold) {
  int32_t sum = 0;
  for (const ErrorRow* end = rows + count; rows < end; ++rows) {
    const int32_t first = rows->first;
    if (scores[first] >= threshold) sum += rows->error * weights[first];
  }
  return sum;
}

// Packed scores are read row by row: sums of all inputs at once.
void PackedSums(const DenseShape& shape, const int8_t* error_out, const int8_t* weights,
                const ScoreView& scores, const int8_t* relu_output, int32_t* sums) {
  int32_t rank = 0;
  for (int32_t i = 0; i < shape.inputs; ++i) sums[i] = 0;
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int32_t e = error_out[o];
    if (e == 0) {
      SkipScoredFast(scores, o, shape.inputs, &rank);
      continue;
    }
    const int8_t* w = weights + o * shape.inputs;
    for (int32_t i = 0; i < shape.inputs; ++i) {
      if (relu_output == nullptr || relu_output[i] > 0) sums[i] += e * w[i];
    }
    ForEachPruned(scores, o, shape.inputs, &rank, [&](int32_t i) {
      if (relu_output == nullptr || relu_output[i] > 0) sums[i] -= e * w[i];
    });
  }
}

}  // namespace

void TrainDenseForward(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                       const int32_t* bias, const ScoreView* scores, const Requantize& requantize,
                       void* scratch, int8_t* output) {
  uint16_t* list = static_cast<uint16_t*>(scratch);
  const int32_t count = ListNonzero(input, shape.inputs, list);
  const Requantizer round(requantize);
  int32_t rank = 0;
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int8_t* w = weights + o * shape.inputs;
    int32_t sum;
    if (IsDense(scores)) {
      sum = MaskedDotListed(input, w, scores->scores + o * shape.inputs, scores->threshold, list,
                            count);
    } else {
      sum = DotListed(input, w, list, count);
      if (scores != nullptr) {
        ForEachPruned(*scores, o, shape.inputs, &rank, [&](int32_t i) { sum -= input[i] * w[i]; });
      }
    }
    output[o] = round(sum + BiasOf(bias, o), o);
  }
}

void TrainDenseBackward(const DenseShape& shape, const int8_t* error_out, const int8_t* weights,
                        const ScoreView* scores, const int8_t* relu_output,
                        const Requantize& requantize, void* scratch, int8_t* error_in) {
  const bool packed = scores != nullptr && !IsDense(scores);
  int32_t* sums = static_cast<int32_t*>(scratch);
  ErrorRow* rows = static_cast<ErrorRow*>(scratch);
  int32_t count = 0;
  if (packed) {
    PackedSums(shape, error_out, weights, *scores, relu_output, sums);
  } else {
    for (int32_t o = 0; o < shape.outputs; ++o) {
      if (error_out[o] != 0) rows[count++] = {error_out[o], o * shape.inputs};
    }
  }
  const Requantizer round(requantize);
  for (int32_t i = 0; i < shape.inputs; ++i) {
    if (relu_output != nullptr && relu_output[i] <= 0) {
      error_in[i] = 0;
      continue;
    }
    const int32_t sum = packed              ? sums[i]
                        : scores == nullptr ? ErrorSum(rows, count, weights + i)
                                            : MaskedErrorSum(rows, count, weights + i,
                                                             scores->scores + i, scores->threshold);
    error_in[i] = round(sum, i);
  }
}

void TrainDenseScores(const DenseShape& shape, const int8_t* input, const int8_t* error,
                      const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                      void* scratch, ScoreCounts* counts) {
  const DeadZone zone = FindDeadZone(params);
  const bool listed = IsDense(&scores);
  uint16_t* list = static_cast<uint16_t*>(scratch);
  const int32_t count = listed ? ListNonzero(input, shape.inputs, list) : 0;
  const uint32_t low = static_cast<uint32_t>(zone.low);
  const uint32_t span = static_cast<uint32_t>(zone.high) - low;
  int32_t rank = 0;
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int32_t e = error[o], first = o * shape.inputs;
    const int8_t* w = weights + first;
    if (!listed && e == 0) {
      SkipScoredFast(scores, o, shape.inputs, &rank);
    } else if (!listed) {
      VisitScoredFast(scores, o, shape.inputs, &rank, [&](int32_t i, int32_t score) {
        const int32_t product = w[i] * (e * input[i]);
        if (zone.Holds(product)) return;
        PriotApplyStep(scores, score, UpdateStep(params, product, first + i), counts);
      });
    } else if (e != 0) {
      for (const uint16_t *at = list, *end = list + count; at < end; ++at) {
        const uint32_t i = *at;
        const int32_t product = w[i] * (e * input[i]);
        if (static_cast<uint32_t>(product) - low <= span) continue;
        const int32_t edge = first + static_cast<int32_t>(i);
        PriotApplyStep(scores, edge, UpdateStep(params, product, edge), counts);
      }
    }
  }
}

void TrainDenseWeights(const DenseShape& shape, const int8_t* input, const int8_t* error,
                       const UpdateParams& params, void* scratch, int8_t* weights) {
  uint16_t* list = static_cast<uint16_t*>(scratch);
  const int32_t count = ListNonzero(input, shape.inputs, list);
  const DeadZone zone = FindDeadZone(params);
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int32_t e = error[o];
    if (e == 0) continue;
    const int32_t first = o * shape.inputs;
    for (int32_t k = 0; k < count; ++k) {
      const int32_t i = list[k];
      if (zone.Holds(e * input[i])) continue;
      const int32_t step = UpdateStep(params, e * input[i], first + i);
      weights[first + i] = static_cast<int8_t>(Clamp(weights[first + i] - step, -127, 127));
    }
  }
}

}  // namespace tflm_train
