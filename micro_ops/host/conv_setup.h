// What the kernels with weights share: their scales, and the checks of a convolution.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_CONV_SETUP_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_CONV_SETUP_H_

#include <algorithm>
#include <vector>

#include "micro_ops/core/conv.h"
#include "micro_ops/host/operator_view.h"

namespace tflm_train {

// Converted input rows held at a time: small enough to stay in the first-level cache.
constexpr int32_t kRowBytes = 24 << 10;
constexpr int32_t kRowTile = 6;

inline int32_t RowsAtATime(int32_t row_bytes) {
  return std::max(kRowTile, kRowBytes / row_bytes / kRowTile * kRowTile);
}

// Scales of all output channels, shared by the portable and the packed form.
struct ChannelScales {
  std::vector<int32_t> multiplier, shift;
  int32_t step = 0;

  void Add(const Multiplier& m) {
    multiplier.push_back(m.multiplier);
    shift.push_back(m.shift);
    step = multiplier.size() > 1 ? 1 : 0;
  }
};

// What CONV_2D and DEPTHWISE_CONV_2D have in common.
struct ConvSetup {
  ConvParams params = {};
  ChannelScales scales;
  const int32_t* bias = nullptr;
  Operand input, filter, output;
  bool constant_filter = false;

  // channel_dimension: of the filter's output channels.
  ConvSetup(const OperatorView& view, int32_t channel_dimension);

  void SetPacked(PackedScales* packed) const {
    packed->SetScales(params.output_depth, params.multiplier, params.shift, params.channel_step);
    packed->output_offset = params.output_offset;
    packed->activation_min = params.activation_min;
    packed->activation_max = params.activation_max;
  }

  int32_t input_size() const {
    return params.input_height * params.input_width * params.input_depth;
  }
  int32_t output_size() const {
    return params.output_height * params.output_width * params.output_depth;
  }

  int32_t images = 1;  // of one sample
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_CONV_SETUP_H_
