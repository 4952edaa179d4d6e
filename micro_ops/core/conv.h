// int8 convolutions as TFLM's reference kernels compute them, bit for bit. Tensors are NHWC, conv
// filters [out][height][width][in], depthwise filters [1][height][width][out].
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_CONV_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_CONV_H_

#include <cstdint>

namespace tflm_train {

struct ConvParams {
  int32_t input_height, input_width, input_depth;
  int32_t filter_height, filter_width;
  int32_t filter_depth;  // input_depth / groups; unused by the depthwise kernel
  int32_t output_height, output_width, output_depth;
  int32_t stride_height, stride_width;
  int32_t dilation_height, dilation_width;
  int32_t pad_top, pad_left;
  int32_t input_offset;   // -zero point of the input
  int32_t output_offset;  // zero point of the output
  int32_t activation_min, activation_max;
  // Requantisation of output channel c: element c * channel_step of each array, so step 0 shares
  // one pair between all channels.
  const int32_t* multiplier;
  const int32_t* shift;
  int32_t channel_step;
};

// One image. bias may be nullptr. Positions outside the image contribute nothing.
void Conv2DInt8(const ConvParams& params, const int8_t* input, const int8_t* filter,
                const int32_t* bias, int8_t* output);

// One image; output channel c reads input channel c / (output_depth / input_depth).
void DepthwiseConv2DInt8(const ConvParams& params, const int8_t* input, const int8_t* filter,
                         const int32_t* bias, int8_t* output);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_CONV_H_
