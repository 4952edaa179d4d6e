#include "micro_ops/core/zo_loss.h"

#include "micro_ops/core/zo_tables.h"

namespace tflm_train {
namespace {

// Linear interpolation between table entries: `index` counts them, `fraction` is 0 .. 255.
int32_t Interpolate(const int32_t* table, uint32_t index, uint32_t fraction) {
  const int32_t low = table[index];
  return low + (((table[index + 1] - low) * static_cast<int32_t>(fraction)) >> 8);
}

}  // namespace

uint32_t ZoExp2Negative(uint32_t t) {
  const uint32_t exponent = t >> 16;
  if (exponent > 20) return 0;
  return static_cast<uint32_t>(Interpolate(kZoExp2Table, (t >> 8) & 255u, t & 255u)) >> exponent;
}

int32_t ZoLog2(uint32_t s) {
  int32_t bits = 31;
  while (!(s >> bits)) --bits;
  const uint32_t mantissa = (s << (31 - bits)) & 0x7fffffffu;
  return (bits - 20) * 65536 + Interpolate(kZoLog2Table, mantissa >> 23, (mantissa >> 15) & 255u);
}

int64_t ZoCrossEntropy(const int8_t* logits, int32_t classes, int32_t label, int32_t mult) {
  int32_t highest = logits[0];
  for (int32_t i = 1; i < classes; ++i) {
    if (logits[i] > highest) highest = logits[i];
  }
  uint32_t sum = 0;
  for (int32_t i = 0; i < classes; ++i) {
    sum += ZoExp2Negative(static_cast<uint32_t>((highest - logits[i]) * mult));
  }
  return static_cast<int64_t>(ZoLog2(sum)) + static_cast<int64_t>(highest - logits[label]) * mult;
}

int64_t ZoSquaredError(const int8_t* output, const int8_t* target, int32_t size) {
  int64_t sum = 0;
  for (int32_t i = 0; i < size; ++i) {
    const int32_t difference = output[i] - target[i];
    sum += difference * difference;
  }
  return sum;
}

}  // namespace tflm_train
