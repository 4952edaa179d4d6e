#include "micro_ops/armv6m/conv_int8.h"

#include "micro_ops/armv6m/lanes.h"
#include "micro_ops/core/fixed_point.h"
#include "micro_ops/core/window.h"

namespace tflm_train {
namespace {

// Lanes [tap][output channel].
void PackFilter(const int8_t* filter, int32_t row, int32_t channels, int32_t words,
                uint32_t* lanes) {
  for (int32_t c = 0; c < 2 * words; c += 2) {
    const int8_t* a = filter + c * row;
    const int8_t* b = a + row;
    uint32_t* to = lanes + c / 2;
    for (int32_t i = 0; i < row; ++i, to += words) {
      *to = Lanes(c < channels ? a[i] : 0, c + 1 < channels ? b[i] : 0);
    }
  }
}

// An input less its zero point may need nine bits: two entries then, each within eight.
int32_t Append(const int8_t* x, int32_t size, int32_t offset, const uint32_t* base, int32_t row,
               int32_t step, LaneEntry* list) {
  LaneEntry* to = list;
  for (int32_t i = 0; i < size; ++i, row += step) {
    int32_t factor = x[i] + offset;
    if (factor == 0) continue;
    if (factor > 127) {
      *to++ = MakeEntry(127, base, row);
      factor -= 127;
    } else if (factor < -128) {
      *to++ = MakeEntry(-128, base, row);
      factor += 128;
    }
    *to++ = MakeEntry(factor, base, row);
  }
  return static_cast<int32_t>(to - list);
}

}  // namespace

void LaneConv2DInt8(const ConvParams& p, const int8_t* input, const int8_t* filter,
                    const int32_t* bias, void* scratch, int8_t* output) {
  const int32_t row = p.filter_height * p.filter_width * p.filter_depth;
  const int32_t words = ((p.output_depth + 3) & ~3) / 2;
  uint32_t* lanes = static_cast<uint32_t*>(scratch);
  LaneEntry* list = reinterpret_cast<LaneEntry*>(lanes + row * words);
  int32_t* sums = reinterpret_cast<int32_t*>(list + 2 * row + 4);
  PackFilter(filter, row, p.output_depth, words, lanes);
  for (int32_t oy = 0; oy < p.output_height; ++oy) {
    const Window ys =
        MakeWindow(oy * p.stride_height - p.pad_top, 1, p.filter_height, p.input_height);
    for (int32_t ox = 0; ox < p.output_width; ++ox) {
      const Window xs =
          MakeWindow(ox * p.stride_width - p.pad_left, 1, p.filter_width, p.input_width);
      const int32_t run = (xs.end - xs.begin) * p.input_depth;
      int32_t count = 0;
      for (int32_t fy = ys.begin; fy < ys.end; ++fy) {
        const int8_t* x =
            input + ((ys.origin + fy) * p.input_width + xs.origin + xs.begin) * p.input_depth;
        const int32_t first = (fy * p.filter_width + xs.begin) * p.input_depth;
        count += Append(x, run, p.input_offset, lanes, first * words, words, list + count);
      }
      PadList(list, count, lanes);
      for (int32_t c = 0; c < p.output_depth; ++c) sums[c] = bias != nullptr ? bias[c] : 0;
      LaneSums(list, count, 0, sums, words / 2, lanes);
      for (int32_t c = 0; c < p.output_depth; ++c) {
        *output++ =
            RequantizeSum(sums[c], p.multiplier[c * p.channel_step], p.shift[c * p.channel_step],
                          p.output_offset, p.activation_min, p.activation_max);
      }
    }
  }
}

}  // namespace tflm_train
