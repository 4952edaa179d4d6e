// One call each of CMSIS-NN's unmasked s8 kernels and of the masked kernels of this project, on the
// same shapes, between work marks. Built by benchmarks/firmware.py for the emulated Cortex-M55.
#include <cstdint>

#include "arm_nnfunctions.h"
#include "micro_ops/targets/common/board.h"
#include "micro_ops/trainer/train_kernels.h"

using namespace tflm_train;

namespace {

constexpr int32_t kConvInput = 15 * 15 * 16, kConvWeights = 32 * 144, kConvOutput = 7 * 7 * 32;
constexpr int32_t kDenseInput = 1568, kDenseOutput = 30;
constexpr int32_t kDenseWeights = kDenseInput * kDenseOutput;

alignas(16) int8_t input[kConvInput];
alignas(16) int8_t weights[kDenseWeights];
alignas(16) int8_t scores[kDenseWeights];
alignas(16) int8_t output[kConvOutput];
alignas(16) int8_t expected[kConvOutput];
alignas(16) uint8_t scratch[32768];
int32_t multipliers[32], shifts[32];

void Fill(int8_t* to, int32_t size, uint32_t seed) {
  for (int32_t i = 0; i < size; ++i) {
    seed = seed * 1664525u + 1013904223u;
    to[i] = static_cast<int8_t>(static_cast<int32_t>(seed >> 24) - 128);
    if (to[i] == -128) to[i] = 1;
  }
}

constexpr int32_t kShift = 11;

// A 3 x 3 convolution of stride 2 from size x size x 16 to 7 x 7 x 32.
int RunConv(int32_t size) {
  const ConvShape shape = {size, size, 16, 7, 7, 32, 3, 3, 2, 2, 0, 0};
  for (int32_t i = 0; i < 32; ++i) {
    multipliers[i] = 1 << 30;  // 0.5: with the shift, 2^-kShift
    shifts[i] = 1 - kShift;
  }
  cmsis_nn_context context = {scratch, sizeof(scratch)};
  const cmsis_nn_conv_params conv = {0, 0, {2, 2}, {0, 0}, {1, 1}, {-128, 127}};
  const cmsis_nn_per_channel_quant_params quant = {multipliers, shifts};
  const cmsis_nn_dims in = {1, size, size, 16}, filter = {32, 3, 3, 16}, bias = {1, 1, 1, 32},
                      out = {1, 7, 7, 32};
  BoardWorkBegin();
  const arm_cmsis_nn_status status = arm_convolve_s8(&context, &conv, &quant, &in, input, &filter,
                                                     weights, &bias, nullptr, &out, expected);
  BoardWorkEnd();
  if (status != ARM_CMSIS_NN_SUCCESS) return 10;
  const ScoreView view = {scores, nullptr, nullptr, nullptr, -64, ScoreStorage::kDense};
  const Requantize requantize = {kShift, Rounding::kTflm, -128, 127, 0};
  BoardWorkBegin();
  TrainConvForward(shape, input, weights, nullptr, &view, requantize, scratch, output);
  BoardWorkEnd();
  // With nothing pruned both compute the same numbers.
  ScoreView open = view;
  open.threshold = -128;
  TrainConvForward(shape, input, weights, nullptr, &open, requantize, scratch, output);
  for (int32_t i = 0; i < kConvOutput; ++i) {
    if (output[i] != expected[i]) return 11;
  }
  return 0;
}

int RunDense() {
  const DenseShape shape = {kDenseInput, kDenseOutput};
  cmsis_nn_context context = {nullptr, 0};
  const cmsis_nn_fc_params fc = {0, 0, 0, {-128, 127}};
  const cmsis_nn_per_tensor_quant_params quant = {1 << 30, 1 - kShift};
  const cmsis_nn_dims in = {1, 1, 1, kDenseInput}, filter = {kDenseInput, 1, 1, kDenseOutput},
                      bias = {1, 1, 1, kDenseOutput}, out = {1, 1, 1, kDenseOutput};
  BoardWorkBegin();
  const arm_cmsis_nn_status status = arm_fully_connected_s8(
      &context, &fc, &quant, &in, input, &filter, weights, &bias, nullptr, &out, expected);
  BoardWorkEnd();
  if (status != ARM_CMSIS_NN_SUCCESS) return 20;
  const ScoreView view = {scores, nullptr, nullptr, nullptr, -64, ScoreStorage::kDense};
  const Requantize requantize = {kShift, Rounding::kTflm, -128, 127, 0};
  BoardWorkBegin();
  TrainDenseForward(shape, input, weights, nullptr, &view, requantize, scratch, output);
  BoardWorkEnd();
  ScoreView open = view;
  open.threshold = -128;
  TrainDenseForward(shape, input, weights, nullptr, &open, requantize, scratch, output);
  for (int32_t i = 0; i < kDenseOutput; ++i) {
    if (output[i] != expected[i]) return 21;
  }
  return 0;
}

}  // namespace

int main() {
  Fill(input, kConvInput, 1);
  Fill(weights, kDenseWeights, 2);
  Fill(scores, kDenseWeights, 3);
  // 14 needs a border on two sides, 15 needs none.
  for (int32_t size = 14; size <= 15; ++size) {
    const int conv = RunConv(size);
    if (conv != 0) return conv;
  }
  return RunDense();
}
