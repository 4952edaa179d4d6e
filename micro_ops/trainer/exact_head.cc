#include "micro_ops/trainer/exact_head.h"

#include "micro_ops/core/counter_rng.h"
#include "micro_ops/core/zo_loss.h"

namespace tflm_train {
namespace {

constexpr int32_t kErrorBits = 15;   // an error of 1
constexpr int32_t kFeatureBits = 7;  // a feature of 128 steps

}  // namespace

void ExactHeadError(const int8_t* logits, int32_t classes, int32_t label, int32_t multiplier,
                    int32_t* error) {
  int32_t highest = logits[0];
  for (int32_t i = 1; i < classes; ++i) {
    if (logits[i] > highest) highest = logits[i];
  }
  uint32_t sum = 0;
  for (int32_t i = 0; i < classes; ++i) {
    const uint32_t term = ZoExp2Negative(static_cast<uint32_t>((highest - logits[i]) * multiplier));
    error[i] = static_cast<int32_t>(term);
    sum += term;
  }
  for (int32_t i = 0; i < classes; ++i) {
    error[i] = static_cast<int32_t>((static_cast<uint64_t>(error[i]) << kErrorBits) / sum);
  }
  error[label] -= 1 << kErrorBits;
}

int32_t ExactHeadStep(const ExactHead& head, const int8_t* input, const int8_t* logits,
                      int32_t label, uint32_t step, int32_t* error) {
  ExactHeadError(logits, head.classes, label, head.loss_multiplier, error);
  const uint32_t key = RngKey(head.seed, step, kRoundingStream);
  int32_t changed = 0;
  uint32_t edge = 0;
  for (int32_t c = 0; c < head.classes; ++c) {
    const int64_t rate = static_cast<int64_t>(error[c]) * head.rate_q16;
    for (int32_t i = 0; i < head.inputs; ++i, ++edge) {
      const int64_t move =
          (rate * (input[i] - head.input_zero_point)) >> (kErrorBits + kFeatureBits);
      const uint32_t draw = (RngWord(key, edge >> 1) >> (16 * (edge & 1))) & 0xffffu;
      const int64_t delta = (move + draw) >> 16;
      if (delta == 0) continue;
      const int64_t value = head.weights[edge] - delta;
      const int64_t kept = value > head.limit    ? head.limit
                           : value < -head.limit ? -head.limit
                                                 : value;
      changed += kept != head.weights[edge] ? 1 : 0;
      head.weights[edge] = static_cast<int8_t>(kept);
    }
  }
  return changed;
}

}  // namespace tflm_train
