// Max-pooling that remembers where each maximum was, and its backward pass.
// Forward: input 0 x; outputs 0 y, 1 places (uint8). Gradient: inputs 0 error of y, 1 places,
// 2 the training state; output 0 error of x.
#include "micro_ops/tflm/op_common.h"
#include "micro_ops/tflm/train_ops.h"

namespace tflm_train {
namespace {

struct PoolData {
  PoolOptions options;
  PoolShape shape;
  bool good_options;
};

void* Init(TfLiteContext* context, const char* buffer, size_t length) {
  auto* data = static_cast<PoolData*>(AllocateData<PoolData>(context));
  if (data != nullptr) data->good_options = ReadOptions(buffer, length, &data->options);
  return data;
}

// `large` is the pool's input, `small` its output, `places` one byte per value of `small`.
TfLiteStatus ReadPool(TfLiteContext* context, const char* name, const TempTensor& large,
                      const TempTensor& small, const TempTensor& places, PoolData* data) {
  const PoolOptions& o = data->options;
  TFLM_TRAIN_ENSURE(context, name, data->good_options && o.version == 1,
                    "option bytes of a pool, version 1");
  TFLM_TRAIN_ENSURE(context, name, large && small && places, "all its tensors");
  TFLM_TRAIN_ENSURE(context, name, large.is_int8() && small.is_int8(), "int8 values");
  TFLM_TRAIN_ENSURE(context, name, places->type == kTfLiteUInt8, "places as uint8");
  TFLM_TRAIN_ENSURE(context, name, large.rank() == 4 && small.rank() == 4, "tensors of rank 4");
  TFLM_TRAIN_ENSURE(context, name, large.dim(0) == 1 && small.dim(0) == 1, "batch 1");
  TFLM_TRAIN_ENSURE(context, name, large.dim(3) == small.dim(3), "the same channels");
  TFLM_TRAIN_ENSURE(context, name, places.elements() == small.elements(), "a place per maximum");
  PoolShape& s = data->shape;
  s = {large.dim(1),   large.dim(2),    large.dim(3),   small.dim(1), small.dim(2), o.filter_height,
       o.filter_width, o.stride_height, o.stride_width, o.pad_top,    o.pad_left};
  TFLM_TRAIN_ENSURE(context, name,
                    s.filter_height > 0 && s.filter_width > 0 && s.filter_height <= 256 &&
                        s.filter_width <= 256 && s.filter_height * s.filter_width <= 256,
                    "windows of 1 to 256 positions");
  TFLM_TRAIN_ENSURE(
      context, name,
      s.stride_height > 0 && s.stride_width > 0 && s.pad_top >= 0 && s.pad_left >= 0 &&
          s.pad_top < s.filter_height && s.pad_left < s.filter_width &&
          static_cast<int64_t>(s.out_height - 1) * s.stride_height - s.pad_top < s.in_height &&
          static_cast<int64_t>(s.out_width - 1) * s.stride_width - s.pad_left < s.in_width,
      "windows that touch their input");
  return kTfLiteOk;
}

TfLiteStatus PrepareForward(TfLiteContext* context, TfLiteNode* node) {
  auto* data = static_cast<PoolData*>(node->user_data);
  TFLM_TRAIN_ENSURE(context, kMaxPoolName, data != nullptr, "room for the operator's data");
  return ReadPool(context, kMaxPoolName, TempTensor::Input(context, node, 0),
                  TempTensor::Output(context, node, 0), TempTensor::Output(context, node, 1), data);
}

TfLiteStatus EvalForward(TfLiteContext* context, TfLiteNode* node) {
  const auto& data = *static_cast<const PoolData*>(node->user_data);
  NitiMaxPoolForward(data.shape, InputData<int8_t>(context, node, 0),
                     OutputData<int8_t>(context, node, 0), OutputData<uint8_t>(context, node, 1));
  return kTfLiteOk;
}

TfLiteStatus PrepareGradient(TfLiteContext* context, TfLiteNode* node) {
  auto* data = static_cast<PoolData*>(node->user_data);
  TFLM_TRAIN_ENSURE(context, kMaxPoolGradientName, data != nullptr, "room for the operator's data");
  TF_LITE_ENSURE_STATUS(
      CheckState(context, kMaxPoolGradientName, TempTensor::Input(context, node, 2)));
  return ReadPool(context, kMaxPoolGradientName, TempTensor::Output(context, node, 0),
                  TempTensor::Input(context, node, 0), TempTensor::Input(context, node, 1), data);
}

TfLiteStatus EvalGradient(TfLiteContext* context, TfLiteNode* node) {
  const auto& data = *static_cast<const PoolData*>(node->user_data);
  if (InputData<TrainState>(context, node, 2)->active == 0) return kTfLiteOk;
  NitiMaxPoolBackward(data.shape, InputData<int8_t>(context, node, 0),
                      InputData<uint8_t>(context, node, 1), OutputData<int8_t>(context, node, 0));
  return kTfLiteOk;
}

}  // namespace

TFLMRegistration RegisterMaxPool() {
  return tflite::micro::RegisterOp(Init, PrepareForward, EvalForward);
}
TFLMRegistration RegisterMaxPoolGradient() {
  return tflite::micro::RegisterOp(Init, PrepareGradient, EvalGradient);
}

}  // namespace tflm_train
