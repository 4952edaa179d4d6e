#include "micro_ops/core/conv.h"
#include "micro_ops/core/fixed_point.h"
#include "micro_ops/core/window.h"

namespace tflm_train {

void DepthwiseConv2DInt8(const ConvParams& p, const int8_t* input, const int8_t* filter,
                         const int32_t* bias, int8_t* output) {
  const int32_t per_input = p.output_depth / p.input_depth;
  for (int32_t oy = 0; oy < p.output_height; ++oy) {
    const Window rows = MakeWindow(oy * p.stride_height - p.pad_top, p.dilation_height,
                                   p.filter_height, p.input_height);
    for (int32_t ox = 0; ox < p.output_width; ++ox) {
      const Window columns = MakeWindow(ox * p.stride_width - p.pad_left, p.dilation_width,
                                        p.filter_width, p.input_width);
      for (int32_t c = 0; c < p.output_depth; ++c) {
        const int8_t* channel = input + c / per_input;
        uint32_t acc = bias != nullptr ? static_cast<uint32_t>(bias[c]) : 0u;
        for (int32_t fy = rows.begin; fy < rows.end; ++fy) {
          const int32_t y = rows.origin + fy * p.dilation_height;
          for (int32_t fx = columns.begin; fx < columns.end; ++fx) {
            const int32_t x = columns.origin + fx * p.dilation_width;
            acc += static_cast<uint32_t>(
                (channel[(y * p.input_width + x) * p.input_depth] + p.input_offset) *
                filter[(fy * p.filter_width + fx) * p.output_depth + c]);
          }
        }
        *output++ = RequantizeSum(static_cast<int32_t>(acc), p.multiplier[c * p.channel_step],
                                  p.shift[c * p.channel_step], p.output_offset, p.activation_min,
                                  p.activation_max);
      }
    }
  }
}

}  // namespace tflm_train
