// Stand-in for tests without a TFLM tree: an int8 dense layer with one scale for its weights, over
// micro_ops/core. With TFLM_TRAIN_TESTING_STALE it goes on adding the sums of the weights it was
// prepared with, as CMSIS-NN does on cores with MVE.
#ifndef TFLM_TRAIN_TESTING_FULLY_CONNECTED_H_
#define TFLM_TRAIN_TESTING_FULLY_CONNECTED_H_

#include "micro_ops/core/fully_connected.h"
#include "tensorflow/lite/micro/kernels/kernel_util.h"

namespace tflite {
namespace testing {

struct DenseData {
  tflm_train::FullyConnectedParams params;
  int32_t multiplier, shift;
  int32_t* kept;  // sums of the weights at Prepare
};

// value = multiplier * 2^(shift - 31), multiplier in [2^30, 2^31).
inline void SplitMultiplier(double value, int32_t* multiplier, int32_t* shift) {
  *shift = 0;
  for (; value >= 1.0; value /= 2) ++*shift;
  for (; value < 0.5; value *= 2) --*shift;
  int64_t rounded = static_cast<int64_t>(value * 2147483648.0 + 0.5);
  if (rounded == int64_t{1} << 31) {
    rounded /= 2;
    ++*shift;
  }
  *multiplier = static_cast<int32_t>(rounded);
}

inline void* DenseInit(TfLiteContext* context, const char*, size_t) {
  return context->AllocatePersistentBuffer(context, sizeof(DenseData));
}

inline TfLiteStatus DensePrepare(TfLiteContext* context, TfLiteNode* node) {
  auto* data = static_cast<DenseData*>(node->user_data);
  MicroContext* micro = GetMicroContext(context);
  TfLiteTensor* input = micro->AllocateTempInputTensor(node, 0);
  TfLiteTensor* filter = micro->AllocateTempInputTensor(node, 1);
  TfLiteTensor* output = micro->AllocateTempOutputTensor(node, 0);
  data->params = {filter->dims->data[1],
                  filter->dims->data[0],
                  -input->params.zero_point,
                  output->params.zero_point,
                  -128,
                  127,
                  &data->multiplier,
                  &data->shift,
                  0};
  // The fused ReLU; ReLU6 and the like are not needed by the tests.
  if (node->builtin_data != nullptr && *static_cast<const uint8_t*>(node->builtin_data) == 1) {
    data->params.activation_min = output->params.zero_point;
  }
  SplitMultiplier(static_cast<double>(input->params.scale) *
                      static_cast<double>(filter->params.scale) /
                      static_cast<double>(output->params.scale),
                  &data->multiplier, &data->shift);
  const int32_t rows = data->params.output_depth, depth = data->params.input_depth;
  data->kept = static_cast<int32_t*>(
      context->AllocatePersistentBuffer(context, static_cast<size_t>(rows) * sizeof(int32_t)));
  if (data->kept == nullptr) return kTfLiteError;
  for (int32_t o = 0; o < rows; ++o) {
    data->kept[o] = 0;
    for (int32_t i = 0; i < depth; ++i) data->kept[o] += filter->data.int8[o * depth + i];
  }
  micro->DeallocateTempTfLiteTensor(output);
  micro->DeallocateTempTfLiteTensor(filter);
  micro->DeallocateTempTfLiteTensor(input);
  return kTfLiteOk;
}

inline TfLiteStatus DenseEval(TfLiteContext* context, TfLiteNode* node) {
  const auto& data = *static_cast<const DenseData*>(node->user_data);
  const auto* input = micro::GetTensorData<int8_t>(micro::GetEvalInput(context, node, 0));
  const auto* filter = micro::GetTensorData<int8_t>(micro::GetEvalInput(context, node, 1));
  const int32_t* bias = nullptr;
  if (node->inputs->size > 2 && node->inputs->data[2] >= 0) {
    bias = micro::GetTensorData<int32_t>(micro::GetEvalInput(context, node, 2));
  }
  auto* output = micro::GetTensorData<int8_t>(micro::GetEvalOutput(context, node, 0));
#ifdef TFLM_TRAIN_TESTING_STALE
  for (int32_t o = 0; o < data.params.output_depth; ++o) {
    const int8_t* row = filter + o * data.params.input_depth;
    tflm_train::FullyConnectedParams one = data.params;
    one.output_depth = 1;
    int32_t sum = 0;
    for (int32_t i = 0; i < one.input_depth; ++i) sum += row[i];
    const int32_t stale = (bias == nullptr ? 0 : bias[o]) + one.input_offset * (data.kept[o] - sum);
    tflm_train::FullyConnectedInt8(one, 1, input, row, &stale, output + o);
  }
#else
  tflm_train::FullyConnectedInt8(data.params, 1, input, filter, bias, output);
#endif
  return kTfLiteOk;
}

}  // namespace testing

inline TFLMRegistration Register_FULLY_CONNECTED() {
  return micro::RegisterOp(testing::DenseInit, testing::DensePrepare, testing::DenseEval);
}

}  // namespace tflite

#endif  // TFLM_TRAIN_TESTING_FULLY_CONNECTED_H_
