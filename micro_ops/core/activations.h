// int8 pointwise functions as TFLM's reference kernels compute them, bit for bit. The output may
// be the input.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_ACTIVATIONS_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_ACTIVATIONS_H_

#include <cstdint>

namespace tflm_train {

// QUANTIZE from int8 to int8, and RELU with activation_min above -128.
struct RequantizeParams {
  int32_t input_zero_point, output_zero_point;
  int32_t multiplier, shift;
  int32_t activation_min, activation_max;
};

struct LeakyReluParams {
  int32_t input_zero_point, output_zero_point;
  int32_t identity_multiplier, identity_shift;
  int32_t alpha_multiplier, alpha_shift;  // a negative slope is a negative multiplier
};

struct LogisticParams {
  int32_t input_zero_point;
  int32_t input_multiplier, input_left_shift;  // to 4 integer bits
  int32_t input_range_radius;                  // inputs this far from zero are saturated
};

void RequantizeInt8(const RequantizeParams& params, int32_t size, const int8_t* input,
                    int8_t* output);

// RELU6 and RELU_N1_TO_1: input and output share one quantisation.
void ClampInt8(int32_t low, int32_t high, int32_t size, const int8_t* input, int8_t* output);

void LeakyReluInt8(const LeakyReluParams& params, int32_t size, const int8_t* input,
                   int8_t* output);

// Output scale 1/256, zero point -128.
void LogisticInt8(const LogisticParams& params, int32_t size, const int8_t* input, int8_t* output);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_ACTIVATIONS_H_
