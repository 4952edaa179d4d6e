#include "micro_ops/host/packed.h"

#include <cstring>

namespace tflm_train {

void PackedScales::Resize(int32_t channels) {
  const size_t padded = static_cast<size_t>(RoundUp(channels, kPanel));
  bias = AlignedArray<int32_t>(padded);
  multiplier = AlignedArray<int32_t>(padded);
  left_shift = AlignedArray<int32_t>(padded);
  right_shift = AlignedArray<int32_t>(padded);
}

void PackedScales::SetScales(int32_t channels, const int32_t* multipliers, const int32_t* shifts,
                             int32_t step) {
  any_left_shift = false;
  for (int32_t c = 0; c < channels; ++c) {
    const int32_t shift = shifts[c * step];
    multiplier[c] = multipliers[c * step];
    left_shift[c] = shift > 0 ? shift : 0;
    right_shift[c] = shift > 0 ? 0 : -shift;
    if (shift > 0) any_left_shift = true;
  }
}

void PackedGemm::Resize(int32_t new_columns, int32_t new_depth, int32_t step) {
  columns = new_columns;
  depth = new_depth;
  depth_step = step;
  depth_padded = RoundUp(depth, step);
  weights = AlignedArray<int8_t>(static_cast<size_t>(RoundUp(columns, kPanel)) * depth_padded);
  scales.Resize(columns);
}

void PackedGemm::Pack(const int8_t* filter, const int32_t* bias, int32_t input_offset) {
  switch (depth_step) {
    case 2:
      return PackSteps<2>(filter, bias, input_offset);
    case 4:
      return PackSteps<4>(filter, bias, input_offset);
  }
}

template <int32_t kStep>
void PackedGemm::PackSteps(const int8_t* filter, const int32_t* bias, int32_t input_offset) {
  for (int32_t c = 0; c < columns; ++c) {
    int8_t* panel = weights.data() + static_cast<size_t>(c / kPanel) * kPanel * depth_padded +
                    c % kPanel * kStep;
    const int8_t* row = filter + static_cast<size_t>(c) * depth;
    int32_t sum = 0;
    for (int32_t d = 0; d < depth; ++d) sum += row[d];
    int32_t d = 0;
    for (; d + kStep <= depth; d += kStep, panel += kPanel * kStep) {
      std::memcpy(panel, row + d, static_cast<size_t>(kStep));
    }
    for (int32_t i = 0; d + i < depth; ++i) panel[i] = row[d + i];
    scales.bias[c] =
        static_cast<int32_t>((bias ? static_cast<uint32_t>(bias[c]) : 0u) +
                             static_cast<uint32_t>(sum) * static_cast<uint32_t>(input_offset));
  }
}

void PackedDepthwise::Resize(int32_t new_channels, int32_t new_taps, bool new_swizzled) {
  swizzled = new_swizzled;
  channels = new_channels;
  taps = new_taps;
  weights =
      AlignedArray<int16_t>(static_cast<size_t>(RoundUp(channels, kPanel)) * RoundUp(taps, 2));
  scales.Resize(channels);
}

void PackedDepthwise::Pack(const int8_t* filter, const int32_t* bias, int32_t input_offset) {
  const int32_t taps_padded = RoundUp(taps, 2);
  for (int32_t c = 0; c < channels; ++c) {
    int16_t* panel = weights.data() + static_cast<size_t>(c / kPanel) * kPanel * taps_padded;
    int32_t place = c % kPanel;
    // Exchanges the two middle groups of four.
    if (swizzled && place >= 4 && place < 12) place += place < 8 ? 4 : -4;
    int32_t sum = 0;
    for (int32_t t = 0; t < taps; ++t) {
      const int8_t w = filter[t * channels + c];
      panel[(t / 2 * kPanel + place) * 2 + t % 2] = w;
      sum += w;
    }
    scales.bias[c] =
        static_cast<int32_t>((bias ? static_cast<uint32_t>(bias[c]) : 0u) +
                             static_cast<uint32_t>(sum) * static_cast<uint32_t>(input_offset));
  }
}

}  // namespace tflm_train
