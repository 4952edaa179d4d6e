// Weights in the order the vector kernels read them.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_PACKED_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_PACKED_H_

#include <cstdint>

#include "micro_ops/host/aligned.h"

namespace tflm_train {

constexpr int32_t kPanel = 16;  // output channels side by side

inline int32_t RoundUp(int32_t n, int32_t step) { return (n + step - 1) / step * step; }

// Requantisation of each output channel, padded to whole panels.
struct PackedScales {
  AlignedArray<int32_t> bias;  // with the zero points' share folded in
  AlignedArray<int32_t> multiplier, left_shift, right_shift;
  bool any_left_shift = false;
  int32_t output_offset = 0, activation_min = 0, activation_max = 0;

  void Resize(int32_t channels);
  // Fills the shifts; element c * step of each array, as in ConvParams.
  void SetScales(int32_t channels, const int32_t* multipliers, const int32_t* shifts, int32_t step);
};

// Filter [columns][depth] as panels [column / 16][depth / step][16][step]; padding is zero.
struct PackedGemm {
  int32_t depth = 0, depth_padded = 0, depth_step = 0;
  int32_t columns = 0;
  AlignedArray<int8_t> weights;
  PackedScales scales;

  void Resize(int32_t columns, int32_t depth, int32_t depth_step);
  // input_offset: what is added to every stored input element to get its value.
  void Pack(const int8_t* filter, const int32_t* bias, int32_t input_offset);

 private:
  template <int32_t kStep>
  void PackSteps(const int8_t* filter, const int32_t* bias, int32_t input_offset);
};

// Filter [taps][channels] as panels [channel / 16][tap / 2][16][2] of int16; padding is zero.
// Swizzled panels hold their channels in the order 0-3 8-11 4-7 12-15.
struct PackedDepthwise {
  int32_t taps = 0, channels = 0;
  bool swizzled = false;
  AlignedArray<int16_t> weights;
  PackedScales scales;

  void Resize(int32_t channels, int32_t taps, bool swizzled);
  void Pack(const int8_t* filter, const int32_t* bias, int32_t input_offset);
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_PACKED_H_
