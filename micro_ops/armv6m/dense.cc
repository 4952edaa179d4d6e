// Dense layers of a training step on Cortex-M0+: only nonzero inputs and errors are visited.
#include "micro_ops/armv6m/masks.h"
#include "micro_ops/armv6m/rounding.h"
#include "micro_ops/core/niti_loops.h"
#include "micro_ops/trainer/train_kernels.h"

namespace tflm_train {
namespace {

constexpr int32_t kMaxListed = 65536;

// Numbers of the nonzero values.
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

// Errors that are not zero, with their rows.
struct ErrorRow {
  int32_t error;
  const int8_t* weights;
  const int8_t* scores;
};
constexpr int32_t kErrorRows = 32;

bool IsDense(const ScoreView* scores) {
  return scores != nullptr && scores->storage == ScoreStorage::kDense;
}

int32_t ErrorSum(const ErrorRow* rows, int32_t count, bool masked, int32_t threshold, int32_t i) {
  int32_t sum = 0;
  for (const ErrorRow* end = rows + count; rows < end; ++rows) {
    if (masked && rows->scores[i] < threshold) continue;
    sum += rows->error * rows->weights[i];
  }
  return sum;
}

}  // namespace

void TrainDenseForward(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                       const int32_t* bias, const ScoreView* scores, const Requantize& requantize,
                       void* scratch, int8_t* output) {
  if ((scores != nullptr && !IsDense(scores)) || shape.inputs > kMaxListed) {
    if (scores == nullptr) {
      return NitiDenseForward(shape, input, weights, bias, requantize, output);
    }
    return PriotDenseForward(shape, input, weights, bias, *scores, requantize,
                             static_cast<int8_t*>(scratch), output);
  }
  uint16_t* list = static_cast<uint16_t*>(scratch);
  const int32_t count = ListNonzero(input, shape.inputs, list);
  WithRequantize(requantize, [&](const auto& round) {
    for (int32_t o = 0; o < shape.outputs; ++o) {
      const int8_t* w = weights + o * shape.inputs;
      const int32_t sum = scores == nullptr
                              ? DotListed(input, w, list, count)
                              : MaskedDotListed(input, w, scores->scores + o * shape.inputs,
                                                scores->threshold, list, count);
      output[o] = round(sum + BiasOf(bias, o), o);
    }
  });
}

void TrainDenseBackward(const DenseShape& shape, const int8_t* error_out, const int8_t* weights,
                        const ScoreView* scores, const int8_t* relu_output,
                        const Requantize& requantize, void* scratch, int8_t* error_in) {
  ErrorRow rows[kErrorRows];
  int32_t count = 0;
  for (int32_t o = 0; o < shape.outputs; ++o) {
    if (error_out[o] == 0) continue;
    if (count < kErrorRows) {
      rows[count] = {error_out[o], weights + o * shape.inputs,
                     IsDense(scores) ? scores->scores + o * shape.inputs : nullptr};
    }
    ++count;
  }
  if (count > kErrorRows || (scores != nullptr && !IsDense(scores))) {
    if (scores == nullptr) {
      NitiDenseBackward(shape, error_out, weights, requantize, error_in);
    } else {
      int8_t* masked = static_cast<int8_t*>(scratch);
      int32_t* sums = reinterpret_cast<int32_t*>(masked + ScratchAlign(shape.inputs));
      PriotDenseBackward(shape, error_out, weights, *scores, requantize, masked, sums, error_in);
    }
    if (relu_output != nullptr) NitiReluBackward(relu_output, shape.inputs, error_in);
    return;
  }
  const bool masked = scores != nullptr;
  const int32_t threshold = masked ? scores->threshold : 0;
  WithRequantize(requantize, [&](const auto& round) {
    for (int32_t i = 0; i < shape.inputs; ++i) {
      const bool passes = relu_output == nullptr || relu_output[i] > 0;
      error_in[i] = passes ? round(ErrorSum(rows, count, masked, threshold, i), i) : int8_t{0};
    }
  });
}

void TrainDenseScores(const DenseShape& shape, const int8_t* input, const int8_t* error,
                      const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                      void* scratch, ScoreCounts* counts) {
  if (!IsDense(&scores) || shape.inputs > kMaxListed) {
    return PriotDenseUpdate(shape, input, error, weights, scores, params, counts);
  }
  uint16_t* list = static_cast<uint16_t*>(scratch);
  const int32_t count = ListNonzero(input, shape.inputs, list);
  const DeadZone zone = FindDeadZone(params);
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int32_t e = error[o];
    if (e == 0) continue;
    const int32_t first = o * shape.inputs;
    const int8_t* w = weights + first;
    for (int32_t k = 0; k < count; ++k) {
      const int32_t i = list[k];
      const int32_t product = w[i] * (e * input[i]);
      if (zone.Holds(product)) continue;
      PriotApplyStep(scores, first + i, UpdateStep(params, product, first + i), counts);
    }
  }
}

void TrainDenseWeights(const DenseShape& shape, const int8_t* input, const int8_t* error,
                       const UpdateParams& params, void* scratch, int8_t* weights) {
  if (shape.inputs > kMaxListed) return NitiDenseUpdate(shape, input, error, params, weights);
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
