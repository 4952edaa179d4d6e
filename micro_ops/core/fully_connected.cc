#include "micro_ops/core/fully_connected.h"

#include "micro_ops/core/dot.h"
#include "micro_ops/core/fixed_point.h"

namespace tflm_train {

void FullyConnectedInt8(const FullyConnectedParams& p, int32_t rows, const int8_t* input,
                        const int8_t* filter, const int32_t* bias, int8_t* output) {
  for (int32_t row = 0; row < rows; ++row, input += p.input_depth) {
    const int8_t* w = filter;
    for (int32_t c = 0; c < p.output_depth; ++c, w += p.input_depth) {
      int32_t acc = DotInt8(input, w, p.input_offset, p.input_depth);
      if (bias != nullptr) acc = WrapAdd(acc, bias[c]);
      *output++ = RequantizeSum(acc, p.multiplier[c * p.channel_step], p.shift[c * p.channel_step],
                                p.output_offset, p.activation_min, p.activation_max);
    }
  }
}

}  // namespace tflm_train
