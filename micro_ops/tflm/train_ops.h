// Operators of the training graph for TensorFlow Lite for Microcontrollers. One call registers all:
//
//   tflite::MicroMutableOpResolver<tflm_train::kTrainOpCount> resolver;
//   TF_LITE_ENSURE_STATUS(tflm_train::RegisterTrainOps(resolver));
//
// A graph from `convert --graph train` then trains by Invoke(): inputs x and label (-1: inference
// only), outputs logits, state and the tensors that learn. docs/tflm.md, "Training graph".
#ifndef TFLM_TRAIN_MICRO_OPS_TFLM_TRAIN_OPS_H_
#define TFLM_TRAIN_MICRO_OPS_TFLM_TRAIN_OPS_H_

#include "tensorflow/lite/micro/kernels/kernel_util.h"

namespace tflm_train {

constexpr char kMaskedConvName[] = "TFLM_TRAIN_MASKED_CONV_2D";
constexpr char kMaskedDepthwiseName[] = "TFLM_TRAIN_MASKED_DEPTHWISE_CONV_2D";
constexpr char kMaskedDenseName[] = "TFLM_TRAIN_MASKED_FULLY_CONNECTED";
constexpr char kMaxPoolName[] = "TFLM_TRAIN_MAX_POOL_2D";
constexpr char kCrossEntropyName[] = "TFLM_TRAIN_CROSS_ENTROPY";
constexpr char kConvGradientName[] = "TFLM_TRAIN_CONV_2D_GRADIENT";
constexpr char kDepthwiseGradientName[] = "TFLM_TRAIN_DEPTHWISE_CONV_2D_GRADIENT";
constexpr char kDenseGradientName[] = "TFLM_TRAIN_FULLY_CONNECTED_GRADIENT";
constexpr char kMaxPoolGradientName[] = "TFLM_TRAIN_MAX_POOL_2D_GRADIENT";
constexpr int kTrainOpCount = 9;
constexpr int kMaskedOpCount = 3;

TFLMRegistration RegisterMaskedConv();
TFLMRegistration RegisterMaskedDepthwise();
TFLMRegistration RegisterMaskedDense();
TFLMRegistration RegisterMaxPool();
TFLMRegistration RegisterCrossEntropy();
TFLMRegistration RegisterConvGradient();
TFLMRegistration RegisterDepthwiseGradient();
TFLMRegistration RegisterDenseGradient();
TFLMRegistration RegisterMaxPoolGradient();

namespace internal {
template <class Resolver>
TfLiteStatus Add(Resolver& resolver, const char* name, const TFLMRegistration& registration) {
  // The resolver copies the registration and keeps the name.
  return resolver.AddCustom(name, &registration);
}
}  // namespace internal

// The three masked layers: enough to run a PRIOT or PRIOT-S model that is not trained further.
template <class Resolver>
TfLiteStatus RegisterMaskedOps(Resolver& resolver) {
  TF_LITE_ENSURE_STATUS(internal::Add(resolver, kMaskedConvName, RegisterMaskedConv()));
  TF_LITE_ENSURE_STATUS(internal::Add(resolver, kMaskedDepthwiseName, RegisterMaskedDepthwise()));
  return internal::Add(resolver, kMaskedDenseName, RegisterMaskedDense());
}

// Everything a training graph is made of.
template <class Resolver>
TfLiteStatus RegisterTrainOps(Resolver& resolver) {
  TF_LITE_ENSURE_STATUS(RegisterMaskedOps(resolver));
  TF_LITE_ENSURE_STATUS(internal::Add(resolver, kMaxPoolName, RegisterMaxPool()));
  TF_LITE_ENSURE_STATUS(internal::Add(resolver, kCrossEntropyName, RegisterCrossEntropy()));
  TF_LITE_ENSURE_STATUS(internal::Add(resolver, kConvGradientName, RegisterConvGradient()));
  TF_LITE_ENSURE_STATUS(
      internal::Add(resolver, kDepthwiseGradientName, RegisterDepthwiseGradient()));
  TF_LITE_ENSURE_STATUS(internal::Add(resolver, kDenseGradientName, RegisterDenseGradient()));
  return internal::Add(resolver, kMaxPoolGradientName, RegisterMaxPoolGradient());
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TFLM_TRAIN_OPS_H_
