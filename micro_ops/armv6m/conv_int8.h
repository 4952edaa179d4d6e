// Conv2DInt8 on Cortex-M0+ by lanes: the same bits, with scratch. For filters without groups or
// dilation and without the code -128 (TFLite's are symmetric).
#ifndef TFLM_TRAIN_MICRO_OPS_ARMV6M_CONV_INT8_H_
#define TFLM_TRAIN_MICRO_OPS_ARMV6M_CONV_INT8_H_

#include <cstdint>

#include "micro_ops/core/conv.h"

namespace tflm_train {

// Bytes: filter lanes, a list of two entries for each tap, sums of one position.
constexpr int32_t LaneConvScratch(const ConvParams& p) {
  const int32_t row = p.filter_height * p.filter_width * p.filter_depth;
  const int32_t channels = (p.output_depth + 3) & ~3;
  return 2 * row * channels + 8 * (2 * row + 4) + 4 * channels;
}

// scratch: LaneConvScratch bytes, aligned to 8.
void LaneConv2DInt8(const ConvParams& params, const int8_t* input, const int8_t* filter,
                    const int32_t* bias, void* scratch, int8_t* output);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_ARMV6M_CONV_INT8_H_
