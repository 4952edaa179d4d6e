#include "micro_ops/core/niti_loss.h"

#include "micro_ops/core/niti_rounding.h"

namespace tflm_train {
namespace {

constexpr int32_t kLog2E = 47274;  // log2(e) * 2^15, as NITI writes it.
constexpr int32_t kTaylorLimit = -7;
constexpr int32_t kLowestExponent = -9;  // y << 11 must fit uint32.
constexpr int32_t kHighestExponent = 15;
constexpr int32_t kErrorShift = 4;

// Unnormalised probabilities; returns their sum.
uint32_t Exponentials(const int8_t* logits, int32_t classes, int32_t exponent, int32_t* y) {
  uint32_t sum = 0;
  if (exponent <= kTaylorLimit) {
    // e^x is near 1 + x + x^2 / 2; times 2^(1 - 2 exponent) all three terms are integers.
    const int32_t extra = exponent < kLowestExponent ? kLowestExponent - exponent : 0;
    const int32_t e = exponent + extra;
    const int32_t drop = extra < 8 ? extra : 8;
    for (int32_t i = 0; i < classes; ++i) {
      const int32_t q = logits[i] >> drop;
      y[i] = (1 << (1 - 2 * e)) + q * (1 << (1 - e)) + q * q;
      sum += static_cast<uint32_t>(y[i]);
    }
    return sum;
  }
  const int32_t down = 15 - (exponent > kHighestExponent ? kHighestExponent : exponent);
  int32_t largest = INT32_MIN;
  for (int32_t i = 0; i < classes; ++i) {
    y[i] = (logits[i] * kLog2E) >> down;
    if (y[i] > largest) largest = y[i];
  }
  for (int32_t i = 0; i < classes; ++i) {
    const int32_t k = y[i] - largest + 10;
    y[i] = k > 0 ? (1 << k) - 1 : 0;
    sum += static_cast<uint32_t>(y[i]);
  }
  return sum;
}

}  // namespace

bool NitiCrossEntropyError(const int8_t* logits, int32_t classes, int32_t exponent, int32_t label,
                           int32_t* scratch, int8_t* error) {
  const uint32_t sum = Exponentials(logits, classes, exponent, scratch);
  int32_t total = 0;
  for (int32_t i = 0; i < classes; ++i) {
    scratch[i] = static_cast<int32_t>((static_cast<uint32_t>(scratch[i]) << 11) / sum);
    total += scratch[i];
  }
  scratch[label] -= total;
  bool any = false;
  for (int32_t i = 0; i < classes; ++i) {
    const int32_t rounded = RoundShift(scratch[i], kErrorShift, Rounding::kHalfAway, 0);
    error[i] = static_cast<int8_t>(Clamp(rounded, -127, 127));
    any = any || error[i] != 0;
  }
  return any;
}

int32_t NitiArgMax(const int8_t* logits, int32_t classes) {
  int32_t best = 0;
  for (int32_t i = 1; i < classes; ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return best;
}

}  // namespace tflm_train
