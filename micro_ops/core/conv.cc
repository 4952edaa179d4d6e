#include "micro_ops/core/conv.h"

#include "micro_ops/core/dot.h"
#include "micro_ops/core/fixed_point.h"
#include "micro_ops/core/window.h"

namespace tflm_train {
namespace {

// Accumulator of one output value: the taps inside the image, a run of contiguous bytes at a time
// where the filter is dense (no dilation along x and one group).
int32_t Accumulate(const ConvParams& p, const int8_t* input, const int8_t* filter,
                   const Window& rows, const Window& columns, int32_t first_channel) {
  const int32_t tap = p.filter_depth;
  const bool contiguous = p.dilation_width == 1 && p.filter_depth == p.input_depth;
  const int32_t run = contiguous ? (columns.end - columns.begin) * tap : tap;
  uint32_t acc = 0;
  for (int32_t fy = rows.begin; fy < rows.end; ++fy) {
    const int32_t y = rows.origin + fy * p.dilation_height;
    for (int32_t fx = columns.begin; fx < columns.end; ++fx) {
      const int32_t x = columns.origin + fx * p.dilation_width;
      acc += static_cast<uint32_t>(
          DotInt8(input + (y * p.input_width + x) * p.input_depth + first_channel,
                  filter + (fy * p.filter_width + fx) * tap, p.input_offset, run));
      if (contiguous) break;
    }
  }
  return static_cast<int32_t>(acc);
}

}  // namespace

void Conv2DInt8(const ConvParams& p, const int8_t* input, const int8_t* filter, const int32_t* bias,
                int8_t* output) {
  const int32_t filter_size = p.filter_height * p.filter_width * p.filter_depth;
  const int32_t per_group = p.output_depth / (p.input_depth / p.filter_depth);
  for (int32_t oy = 0; oy < p.output_height; ++oy) {
    const Window rows = MakeWindow(oy * p.stride_height - p.pad_top, p.dilation_height,
                                   p.filter_height, p.input_height);
    for (int32_t ox = 0; ox < p.output_width; ++ox) {
      const Window columns = MakeWindow(ox * p.stride_width - p.pad_left, p.dilation_width,
                                        p.filter_width, p.input_width);
      for (int32_t c = 0; c < p.output_depth; ++c) {
        int32_t acc = Accumulate(p, input, filter + c * filter_size, rows, columns,
                                 c / per_group * p.filter_depth);
        if (bias != nullptr) acc = WrapAdd(acc, bias[c]);
        *output++ =
            RequantizeSum(acc, p.multiplier[c * p.channel_step], p.shift[c * p.channel_step],
                          p.output_offset, p.activation_min, p.activation_max);
      }
    }
  }
}

}  // namespace tflm_train
