// Forward pass of layers that are seen through scores (PRIOT, PRIOT-S), or whose weights learn
// themselves (NITI). Inputs: 0 x, 1 weights, 2 bias, 3 scores, 4 scored edges; in a training graph
// also 5 initial values of the tensor that learns and 6 the training state.
#include <cstring>

#include "micro_ops/tflm/op_common.h"
#include "micro_ops/tflm/train_ops.h"
#include "micro_ops/trainer/train_kernels.h"

namespace tflm_train {
namespace {

enum { kInput = 0, kWeights = 1, kBias = 2, kScores = 3, kScored = 4, kInitial = 5, kState = 6 };

struct MaskedData {
  MaskedOptions options;
  LayerShape shape;
  bool good_options;
  bool trains;  // has kInitial and kState
  int32_t learning_size;
  int scratch;
};

void* Init(TfLiteContext* context, const char* buffer, size_t length) {
  auto* data = static_cast<MaskedData*>(AllocateData<MaskedData>(context));
  if (data != nullptr) data->good_options = ReadOptions(buffer, length, &data->options);
  return data;
}

TfLiteStatus CheckOptions(TfLiteContext* context, const char* name, const MaskedData& data) {
  const MaskedOptions& o = data.options;
  TFLM_TRAIN_ENSURE(context, name, data.good_options, "option bytes of a masked layer");
  TFLM_TRAIN_ENSURE(context, name, o.version == 1 || o.version == 2, "options of version 1 or 2");
  TFLM_TRAIN_ENSURE(context, name, o.shift >= 0 && o.shift <= kMaxShift, "a shift of 0 to 31");
  TFLM_TRAIN_ENSURE(context, name, o.rounding >= 0 && o.rounding < kRoundingModes,
                    "a rounding of 0 to 4");
  TFLM_TRAIN_ENSURE(context, name, o.activation == 0 || o.activation == 1,
                    "an activation of 0 (none) or 1 (ReLU)");
  return kTfLiteOk;
}

// The tensor that learns is a variable, with its initial values and the state beside it.
TfLiteStatus CheckTraining(TfLiteContext* context, const char* name, const TfLiteNode* node,
                           const TempTensor& learning, MaskedData* data) {
  data->trains = HasInput(node, kInitial);
  if (!data->trains) {
    TFLM_TRAIN_ENSURE(context, name, !learning->is_variable,
                      "initial values for scores that are a variable");
    return kTfLiteOk;
  }
  TempTensor initial = TempTensor::Input(context, node, kInitial);
  TempTensor state = TempTensor::Input(context, node, kState);
  TFLM_TRAIN_ENSURE(context, name, learning->is_variable,
                    "scores, or weights without scores, as a variable");
  data->learning_size = learning.elements();
  TFLM_TRAIN_ENSURE(context, name,
                    initial.is_int8() && initial.elements() == data->learning_size &&
                        initial->data.data != nullptr,
                    "as many constant initial values as the variable holds");
  return CheckState(context, name, state);
}

TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node, LayerKind kind, const char* name) {
  auto* data = static_cast<MaskedData*>(node->user_data);
  TFLM_TRAIN_ENSURE(context, name, data != nullptr, "room for the operator's data");
  TF_LITE_ENSURE_STATUS(CheckOptions(context, name, *data));
  TFLM_TRAIN_ENSURE(context, name, node->inputs->size >= 2 && node->inputs->size <= 7,
                    "2 to 7 inputs");
  TFLM_TRAIN_ENSURE(context, name, node->outputs->size == 1, "1 output");
  const MaskedOptions& o = data->options;
  TempTensor input = TempTensor::Input(context, node, kInput);
  TempTensor weights = TempTensor::Input(context, node, kWeights);
  TempTensor bias = TempTensor::Input(context, node, kBias);
  TempTensor scores = TempTensor::Input(context, node, kScores);
  TempTensor scored = TempTensor::Input(context, node, kScored);
  TempTensor output = TempTensor::Output(context, node, 0);
  TF_LITE_ENSURE_STATUS(ReadLayerShape(context, name, kind, input, weights, output, o.stride_height,
                                       o.stride_width, o.pad_top, o.pad_left, &data->shape));
  if (bias) {
    const int32_t channels =
        kind == LayerKind::kDense ? data->shape.dense.outputs : data->shape.conv.out_channels;
    TFLM_TRAIN_ENSURE(context, name, bias->type == kTfLiteInt32, "an int32 bias or none");
    TFLM_TRAIN_ENSURE(context, name, bias.elements() == channels, "a bias per output channel");
  }
  if (scores) {
    TF_LITE_ENSURE_STATUS(
        CheckScores(context, name, data->shape, o.storage, o.threshold, scores, scored));
  } else {
    TFLM_TRAIN_ENSURE(context, name, HasInput(node, kInitial), "scores");
  }
  TF_LITE_ENSURE_STATUS(CheckTraining(context, name, node, scores ? scores : weights, data));
  return RequestScratch(context, LayerScratch(data->shape, scores ? o.storage : -1),
                        &data->scratch);
}

Requantize ForwardRounding(const MaskedOptions& o, const TrainState* state) {
  Requantize r = {o.shift, static_cast<Rounding>(o.rounding), o.activation == 1 ? 0 : -128, 127, 0};
  if (r.rounding == Rounding::kStochastic) {
    const uint32_t step = state == nullptr ? 0 : static_cast<uint32_t>(state->step);
    r.key = RngKey(static_cast<uint32_t>(o.seed), step,
                   NitiStream(static_cast<uint32_t>(o.layer), NitiUse::kForward));
  }
  return r;
}

TfLiteStatus Eval(TfLiteContext* context, TfLiteNode* node) {
  const auto& data = *static_cast<const MaskedData*>(node->user_data);
  const LayerShape& shape = data.shape;
  int8_t* weights = MutableInputData<int8_t>(context, node, kWeights);
  int8_t* scores = MutableInputData<int8_t>(context, node, kScores);
  const TrainState* state = nullptr;
  if (data.trains) {
    state = InputData<TrainState>(context, node, kState);
    if (state->started == 0) {
      memcpy(scores != nullptr ? scores : weights, InputData<int8_t>(context, node, kInitial),
             static_cast<size_t>(data.learning_size));
    }
  }
  const auto* input = InputData<int8_t>(context, node, kInput);
  const auto* bias = InputData<int32_t>(context, node, kBias);
  int8_t* output = OutputData<int8_t>(context, node, 0);
  void* scratch = Scratch(context, data.scratch);
  const ScoreView view = ViewScores(shape, data.options.storage, data.options.threshold, scores,
                                    InputData<uint8_t>(context, node, kScored));
  const ScoreView* seen = scores == nullptr ? nullptr : &view;
  const Requantize rounding = ForwardRounding(data.options, state);
  switch (shape.kind) {
    case LayerKind::kConv:
      TrainConvForward(shape.conv, input, weights, bias, seen, rounding, scratch, output);
      break;
    case LayerKind::kDepthwise:
      TrainDepthwiseForward(shape.conv, input, weights, bias, seen, rounding, scratch, output);
      break;
    case LayerKind::kDense:
      TrainDenseForward(shape.dense, input, weights, bias, seen, rounding, scratch, output);
      break;
  }
  return kTfLiteOk;
}

TfLiteStatus PrepareConv(TfLiteContext* context, TfLiteNode* node) {
  return Prepare(context, node, LayerKind::kConv, kMaskedConvName);
}
TfLiteStatus PrepareDepthwise(TfLiteContext* context, TfLiteNode* node) {
  return Prepare(context, node, LayerKind::kDepthwise, kMaskedDepthwiseName);
}
TfLiteStatus PrepareDense(TfLiteContext* context, TfLiteNode* node) {
  return Prepare(context, node, LayerKind::kDense, kMaskedDenseName);
}

}  // namespace

TFLMRegistration RegisterMaskedConv() { return tflite::micro::RegisterOp(Init, PrepareConv, Eval); }
TFLMRegistration RegisterMaskedDepthwise() {
  return tflite::micro::RegisterOp(Init, PrepareDepthwise, Eval);
}
TFLMRegistration RegisterMaskedDense() {
  return tflite::micro::RegisterOp(Init, PrepareDense, Eval);
}

}  // namespace tflm_train
