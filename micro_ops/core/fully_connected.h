// int8 dense layer as TFLM's reference kernel computes it, bit for bit.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_FULLY_CONNECTED_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_FULLY_CONNECTED_H_

#include <cstdint>

namespace tflm_train {

struct FullyConnectedParams {
  int32_t input_depth, output_depth;
  int32_t input_offset;   // -zero point of the input
  int32_t output_offset;  // zero point of the output
  int32_t activation_min, activation_max;
  // As in ConvParams: step 0 for one scale, 1 for a scale per output.
  const int32_t* multiplier;
  const int32_t* shift;
  int32_t channel_step;
};

// rows: input vectors, [rows][input_depth]; filter [output_depth][input_depth]; bias may be
// nullptr.
void FullyConnectedInt8(const FullyConnectedParams& params, int32_t rows, const int8_t* input,
                        const int8_t* filter, const int32_t* bias, int8_t* output);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_FULLY_CONNECTED_H_
