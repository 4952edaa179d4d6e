#include "micro_ops/core/activations.h"

#include "micro_ops/core/fixed_point.h"

namespace tflm_train {

void RequantizeInt8(const RequantizeParams& p, int32_t size, const int8_t* input, int8_t* output) {
  for (int32_t i = 0; i < size; ++i) {
    output[i] = RequantizeSum(input[i] - p.input_zero_point, p.multiplier, p.shift,
                              p.output_zero_point, p.activation_min, p.activation_max);
  }
}

void ClampInt8(int32_t low, int32_t high, int32_t size, const int8_t* input, int8_t* output) {
  for (int32_t i = 0; i < size; ++i) output[i] = static_cast<int8_t>(Clamp(input[i], low, high));
}

void LeakyReluInt8(const LeakyReluParams& p, int32_t size, const int8_t* input, int8_t* output) {
  const bool negative = p.alpha_multiplier < 0;
  const int32_t magnitude = negative ? -p.alpha_multiplier : p.alpha_multiplier;
  for (int32_t i = 0; i < size; ++i) {
    const int32_t value = input[i] - p.input_zero_point;
    int32_t scaled;
    if (value >= 0) {
      scaled = MultiplyByQuantizedMultiplier(value, p.identity_multiplier, p.identity_shift);
    } else {
      scaled = MultiplyByQuantizedMultiplier(value, magnitude, p.alpha_shift);
      if (negative) scaled = WrapMul(scaled, -1);
    }
    output[i] =
        static_cast<int8_t>(Clamp(WrapAdd(scaled, p.output_zero_point), INT8_MIN, INT8_MAX));
  }
}

void LogisticInt8(const LogisticParams& p, int32_t size, const int8_t* input, int8_t* output) {
  for (int32_t i = 0; i < size; ++i) {
    const int32_t value = input[i] - p.input_zero_point;
    if (value <= -p.input_range_radius) {
      output[i] = INT8_MIN;
    } else if (value >= p.input_range_radius) {
      output[i] = INT8_MAX;
    } else {
      const int32_t scaled =
          MultiplyByQuantizedMultiplier(value, p.input_multiplier, p.input_left_shift);
      output[i] = static_cast<int8_t>(
          Clamp(RoundingShiftRight(Logistic(scaled), 23) - 128, INT8_MIN, INT8_MAX));
    }
  }
}

}  // namespace tflm_train
