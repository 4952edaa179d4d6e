// int8 pooling as TFLM's reference kernels compute it, bit for bit. NHWC; input and output share
// one quantisation.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_POOLING_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_POOLING_H_

#include <cstdint>

namespace tflm_train {

struct PoolParams {
  int32_t input_height, input_width, depth;
  int32_t output_height, output_width;
  int32_t filter_height, filter_width;
  int32_t stride_height, stride_width;
  int32_t pad_top, pad_left;
  int32_t activation_min, activation_max;
};

// One image. The mean of the positions inside the image, ties away from zero. Every window must
// hold at least one.
void AveragePool2DInt8(const PoolParams& params, const int8_t* input, int8_t* output);

// One image.
void MaxPool2DInt8(const PoolParams& params, const int8_t* input, int8_t* output);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_POOLING_H_
