// Error of the logits by the integer cross-entropy, and the book-keeping of a step.
// Inputs: 0 logits, 1 label (int32, -1: inference only), 2 the training state. Output: the error.
#include "micro_ops/core/niti_loss.h"
#include "micro_ops/tflm/op_common.h"
#include "micro_ops/tflm/train_ops.h"

namespace tflm_train {
namespace {

struct CrossEntropyData {
  CrossEntropyOptions options;
  bool good_options;
  int32_t classes;
  int scratch;
};

void* Init(TfLiteContext* context, const char* buffer, size_t length) {
  auto* data = static_cast<CrossEntropyData*>(AllocateData<CrossEntropyData>(context));
  if (data != nullptr) data->good_options = ReadOptions(buffer, length, &data->options);
  return data;
}

TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  const char* name = kCrossEntropyName;
  auto* data = static_cast<CrossEntropyData*>(node->user_data);
  TFLM_TRAIN_ENSURE(context, name, data != nullptr, "room for the operator's data");
  TFLM_TRAIN_ENSURE(context, name, data->good_options && data->options.version == 1,
                    "option bytes of a loss, version 1");
  TFLM_TRAIN_ENSURE(context, name, node->inputs->size == 3 && node->outputs->size == 1,
                    "3 inputs and 1 output");
  TempTensor logits = TempTensor::Input(context, node, 0);
  TempTensor label = TempTensor::Input(context, node, 1);
  TempTensor state = TempTensor::Input(context, node, 2);
  TempTensor error = TempTensor::Output(context, node, 0);
  TFLM_TRAIN_ENSURE(context, name, logits && label && error, "logits, a label and an error");
  TFLM_TRAIN_ENSURE(context, name, logits.is_symmetric(), "int8 logits with zero point 0");
  TFLM_TRAIN_ENSURE(context, name, logits.rank() >= 1 && (logits.rank() == 1 || logits.dim(0) == 1),
                    "batch 1");
  data->classes = logits.elements();
  TFLM_TRAIN_ENSURE(context, name, data->classes >= 2 && data->classes <= kMaxClasses,
                    "2 to 4095 classes");
  TFLM_TRAIN_ENSURE(context, name, label->type == kTfLiteInt32 && label.elements() == 1,
                    "one int32 label");
  TFLM_TRAIN_ENSURE(context, name, error.is_int8() && error.elements() == data->classes,
                    "an int8 error per logit");
  TF_LITE_ENSURE_STATUS(CheckState(context, name, state));
  return RequestScratch(context, 4 * data->classes, &data->scratch);
}

TfLiteStatus Eval(TfLiteContext* context, TfLiteNode* node) {
  const auto& data = *static_cast<const CrossEntropyData*>(node->user_data);
  const auto* logits = InputData<int8_t>(context, node, 0);
  const int32_t label = *InputData<int32_t>(context, node, 1);
  auto* state = MutableInputData<TrainState>(context, node, 2);
  // All forward operators have run: the tensors that learn hold their values.
  state->started = 1;
  state->active = 0;
  state->guess = NitiArgMax(logits, data.classes);
  if (label == -1) return kTfLiteOk;
  TFLM_TRAIN_ENSURE(context, kCrossEntropyName, label >= 0 && label < data.classes,
                    "a label below the number of classes, or -1");
  const bool any = NitiCrossEntropyError(logits, data.classes, data.options.exponent, label,
                                         static_cast<int32_t*>(Scratch(context, data.scratch)),
                                         OutputData<int8_t>(context, node, 0));
  state->active = any ? 1 : 0;
  state->zero_error += any ? 0 : 1;
  state->correct += state->guess == label ? 1 : 0;
  ++state->step;
  return kTfLiteOk;
}

}  // namespace

TFLMRegistration RegisterCrossEntropy() { return tflite::micro::RegisterOp(Init, Prepare, Eval); }

}  // namespace tflm_train
