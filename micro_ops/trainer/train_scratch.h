// Bytes of scratch of the kernels in train_kernels.h, for all passes of a layer. Constant
// expressions: generated code asserts that its plan holds them.
#ifndef TFLM_TRAIN_MICRO_OPS_TRAINER_TRAIN_SCRATCH_H_
#define TFLM_TRAIN_MICRO_OPS_TRAINER_TRAIN_SCRATCH_H_

#include <cstdint>

#include "micro_ops/core/niti_layers.h"

namespace tflm_train {

// What a layer's weights are seen through.
enum class ScratchKind : int32_t {
  kWeights = 0,  // NITI: all weights
  kDense = 1,    // PRIOT: a score per edge
  kPacked = 2,   // PRIOT-S: packed scores, read in order
};

constexpr int32_t ScratchMax(int32_t a, int32_t b) { return a > b ? a : b; }
constexpr int32_t ScratchAlign(int32_t bytes) { return (bytes + 15) & ~15; }

// Portable: a masked row, then the accumulators of one input position or of the whole input.
constexpr int32_t PortableConvScratch(const ConvShape& s, ScratchKind kind) {
  const int32_t row = s.kernel_height * s.kernel_width * s.in_channels;
  const int32_t sums =
      kind == ScratchKind::kPacked ? s.in_height * s.in_width * s.in_channels : s.in_channels;
  const int32_t masked = kind == ScratchKind::kWeights ? 0 : ScratchAlign(row);
  return ScratchMax(masked + ScratchAlign(4 * sums), ScratchAlign(4 * row));
}
constexpr int32_t PortableDepthwiseScratch(const ConvShape& s, ScratchKind) {
  return ScratchAlign(4 * s.kernel_height * s.kernel_width * s.out_channels);
}
constexpr int32_t PortableDenseScratch(const DenseShape& s, ScratchKind kind) {
  if (kind == ScratchKind::kWeights) return 0;
  const int32_t sums = kind == ScratchKind::kPacked ? ScratchAlign(4 * s.inputs) : 0;
  return ScratchAlign(s.inputs) + sums;
}

#if defined(TFLM_TRAIN_ARMV6M)
// Lists of {value, place} pairs.
constexpr int32_t kLaneEntryBytes = 8;

constexpr int32_t LaneChannels(int32_t channels) { return (channels + 3) & ~3; }

// Weights as 16-bit lanes with the list of one window, or the padded input as lanes with the list
// of one channel's errors and one row of sums.
constexpr int32_t TrainConvScratch(const ConvShape& s, ScratchKind kind) {
  const int32_t row = s.kernel_height * s.kernel_width * s.in_channels;
  const int32_t window = s.kernel_height * s.kernel_width * s.out_channels;
  const int32_t positions = s.out_height * s.out_width;
  const int32_t forward =
      (2 * row + 4) * LaneChannels(s.out_channels) + kLaneEntryBytes * (row + 4);

  const int32_t backward =
      (2 * window + 4) * LaneChannels(s.in_channels) + kLaneEntryBytes * (window + 4);
  const int32_t height = (s.out_height - 1) * s.stride_height + s.kernel_height;
  const int32_t width = (s.out_width - 1) * s.stride_width + s.kernel_width;
  const int32_t update = 2 * height * width * LaneChannels(s.in_channels) +
                         kLaneEntryBytes * (positions + 4) + 4 * row;
  return ScratchMax(ScratchMax(ScratchAlign(forward), ScratchAlign(backward)),
                    ScratchMax(ScratchAlign(update), PortableConvScratch(s, kind))) +
         32;
}
constexpr int32_t TrainDepthwiseScratch(const ConvShape& s, ScratchKind kind) {
  return PortableDepthwiseScratch(s, kind);
}
// Numbers of the nonzero inputs, or the nonzero errors, or sums of all inputs.
constexpr int32_t TrainDenseScratch(const DenseShape& s, ScratchKind kind) {
  const int32_t lists = ScratchMax(ScratchAlign(2 * s.inputs), ScratchAlign(8 * s.outputs));
  return kind == ScratchKind::kPacked ? ScratchMax(lists, ScratchAlign(4 * s.inputs)) : lists;
}
#elif defined(TFLM_TRAIN_HELIUM)
// Four windows and the masked weights, or one masked row and the transposed weights.
constexpr int32_t TrainConvScratch(const ConvShape& s, ScratchKind kind) {
  const int32_t row = s.kernel_height * s.kernel_width * s.in_channels;
  const int32_t weights = ScratchAlign(row * s.out_channels);
  const int32_t forward = 4 * ScratchAlign(row) + (kind == ScratchKind::kWeights ? 0 : weights);
  return ScratchMax(ScratchMax(forward, ScratchAlign(row) + weights), PortableConvScratch(s, kind));
}
constexpr int32_t TrainDepthwiseScratch(const ConvShape& s, ScratchKind kind) {
  return PortableDepthwiseScratch(s, kind);
}
constexpr int32_t TrainDenseScratch(const DenseShape& s, ScratchKind kind) {
  return PortableDenseScratch(s, kind);
}
#else
constexpr int32_t TrainConvScratch(const ConvShape& s, ScratchKind kind) {
  return PortableConvScratch(s, kind);
}
constexpr int32_t TrainDepthwiseScratch(const ConvShape& s, ScratchKind kind) {
  return PortableDepthwiseScratch(s, kind);
}
constexpr int32_t TrainDenseScratch(const DenseShape& s, ScratchKind kind) {
  return PortableDenseScratch(s, kind);
}
#endif

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TRAINER_TRAIN_SCRATCH_H_
