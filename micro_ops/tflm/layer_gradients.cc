// Backward pass and update of a layer in one operator: the error of its output becomes the error of
// its input, through the masks of the forward pass, then the scores (or weights) learn in place.
// Inputs: 0 x, 1 weights, 2 scores (-1: the weights learn), 3 scored edges, 4 error of the output,
// 5 the training state. Output: error of the input, or none for the first layer.
#include "micro_ops/tflm/op_common.h"
#include "micro_ops/tflm/train_ops.h"
#include "micro_ops/trainer/train_kernels.h"

namespace tflm_train {
namespace {

enum { kInput = 0, kWeights = 1, kScores = 2, kScored = 3, kError = 4, kState = 5 };

struct GradientData {
  GradientOptions options;
  LayerShape shape;
  bool good_options;
  bool passes_error;
  int scratch;
};

void* Init(TfLiteContext* context, const char* buffer, size_t length) {
  auto* data = static_cast<GradientData*>(AllocateData<GradientData>(context));
  if (data != nullptr) data->good_options = ReadOptions(buffer, length, &data->options);
  return data;
}

TfLiteStatus CheckOptions(TfLiteContext* context, const char* name, const GradientData& data) {
  const GradientOptions& o = data.options;
  TFLM_TRAIN_ENSURE(context, name, data.good_options, "option bytes of a layer's gradient");
  TFLM_TRAIN_ENSURE(context, name, o.version == 1, "options of version 1");
  TFLM_TRAIN_ENSURE(context, name, o.shift >= 0 && o.shift <= kMaxShift, "a shift of 0 to 31");
  TFLM_TRAIN_ENSURE(context, name,
                    o.rounding >= 0 && o.rounding < kRoundingModes && o.update_rounding >= 0 &&
                        o.update_rounding < kRoundingModes,
                    "roundings of 0 to 4");
  TFLM_TRAIN_ENSURE(context, name, o.update_bits >= 0 && o.update_bits <= 32,
                    "update_bits of 0 to 32");
  TFLM_TRAIN_ENSURE(context, name, o.mu >= 0 && o.mu <= 7, "mu of 0 to 7");
  return kTfLiteOk;
}

TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node, LayerKind kind, const char* name) {
  auto* data = static_cast<GradientData*>(node->user_data);
  TFLM_TRAIN_ENSURE(context, name, data != nullptr, "room for the operator's data");
  TF_LITE_ENSURE_STATUS(CheckOptions(context, name, *data));
  TFLM_TRAIN_ENSURE(context, name, node->inputs->size == 6, "6 inputs");
  TFLM_TRAIN_ENSURE(context, name, node->outputs->size <= 1, "at most 1 output");
  const GradientOptions& o = data->options;
  TempTensor input = TempTensor::Input(context, node, kInput);
  TempTensor weights = TempTensor::Input(context, node, kWeights);
  TempTensor scores = TempTensor::Input(context, node, kScores);
  TempTensor scored = TempTensor::Input(context, node, kScored);
  TempTensor error = TempTensor::Input(context, node, kError);
  TempTensor state = TempTensor::Input(context, node, kState);
  TempTensor below = TempTensor::Output(context, node, 0);
  TF_LITE_ENSURE_STATUS(ReadLayerShape(context, name, kind, input, weights, error, o.stride_height,
                                       o.stride_width, o.pad_top, o.pad_left, &data->shape));
  if (scores) {
    TFLM_TRAIN_ENSURE(context, name, scores->is_variable, "scores as a variable");
    TF_LITE_ENSURE_STATUS(
        CheckScores(context, name, data->shape, o.storage, o.threshold, scores, scored));
  } else {
    TFLM_TRAIN_ENSURE(context, name, weights->is_variable, "scores, or weights as a variable");
  }
  data->passes_error = static_cast<bool>(below);
  if (below) {
    TFLM_TRAIN_ENSURE(context, name, below.is_int8() && below.elements() == data->shape.in_size,
                      "an int8 error of the size of the input");
  }
  TF_LITE_ENSURE_STATUS(CheckState(context, name, state));
  return RequestScratch(context, LayerScratch(data->shape, scores ? o.storage : -1),
                        &data->scratch);
}

uint32_t Key(const GradientOptions& o, Rounding rounding, const TrainState& state, NitiUse use) {
  if (rounding != Rounding::kStochastic) return 0;
  // The step was counted by the loss already.
  return RngKey(static_cast<uint32_t>(o.seed), static_cast<uint32_t>(state.step) - 1,
                NitiStream(static_cast<uint32_t>(o.layer), use));
}

void PassError(const GradientData& data, const int8_t* error, const int8_t* weights,
               const ScoreView* scores, const int8_t* relu, const TrainState& state, void* scratch,
               int8_t* below) {
  const GradientOptions& o = data.options;
  const LayerShape& shape = data.shape;
  Requantize r = {o.shift, static_cast<Rounding>(o.rounding), -127, 127, 0};
  r.key = Key(o, r.rounding, state, NitiUse::kBackward);
  switch (shape.kind) {
    case LayerKind::kConv:
      return TrainConvBackward(shape.conv, error, weights, scores, relu, r, scratch, below);
    case LayerKind::kDepthwise:
      return TrainDepthwiseBackward(shape.conv, error, weights, scores, relu, r, scratch, below);
    case LayerKind::kDense:
      return TrainDenseBackward(shape.dense, error, weights, scores, relu, r, scratch, below);
  }
}

void Learn(const GradientData& data, const int8_t* input, const int8_t* error, int8_t* weights,
           const ScoreView* scores, const TrainState& state, void* scratch) {
  const GradientOptions& o = data.options;
  const LayerShape& shape = data.shape;
  const int32_t mu = Clamp(o.mu - Clamp(state.decay, 0, 31), 0, 7);
  UpdateParams p = {Clamp(o.update_bits - mu, 0, kMaxShift),
                    static_cast<Rounding>(o.update_rounding), 0};
  p.key = Key(o, p.rounding, state, NitiUse::kUpdate);
  ScoreCounts counts = {};
  const bool masked = scores != nullptr;
  switch (shape.kind) {
    case LayerKind::kConv:
      if (masked) {
        return TrainConvScores(shape.conv, input, error, weights, *scores, p, scratch, &counts);
      }
      return TrainConvWeights(shape.conv, input, error, p, scratch, weights);
    case LayerKind::kDepthwise:
      if (masked) {
        return TrainDepthwiseScores(shape.conv, input, error, weights, *scores, p, scratch,
                                    &counts);
      }
      return TrainDepthwiseWeights(shape.conv, input, error, p, scratch, weights);
    case LayerKind::kDense:
      if (masked) {
        return TrainDenseScores(shape.dense, input, error, weights, *scores, p, scratch, &counts);
      }
      return TrainDenseWeights(shape.dense, input, error, p, scratch, weights);
  }
}

TfLiteStatus Eval(TfLiteContext* context, TfLiteNode* node) {
  const auto& data = *static_cast<const GradientData*>(node->user_data);
  const auto& state = *InputData<TrainState>(context, node, kState);
  if (state.active == 0) return kTfLiteOk;
  const auto* input = InputData<int8_t>(context, node, kInput);
  const auto* error = InputData<int8_t>(context, node, kError);
  int8_t* weights = MutableInputData<int8_t>(context, node, kWeights);
  int8_t* scores = MutableInputData<int8_t>(context, node, kScores);
  void* scratch = Scratch(context, data.scratch);
  const ScoreView view = ViewScores(data.shape, data.options.storage, data.options.threshold,
                                    scores, InputData<uint8_t>(context, node, kScored));
  const ScoreView* seen = scores == nullptr ? nullptr : &view;
  if (data.passes_error) {
    PassError(data, error, weights, data.options.masked != 0 ? seen : nullptr,
              data.options.relu_below != 0 ? input : nullptr, state, scratch,
              OutputData<int8_t>(context, node, 0));
  }
  Learn(data, input, error, weights, seen, state, scratch);
  return kTfLiteOk;
}

TfLiteStatus PrepareConv(TfLiteContext* context, TfLiteNode* node) {
  return Prepare(context, node, LayerKind::kConv, kConvGradientName);
}
TfLiteStatus PrepareDepthwise(TfLiteContext* context, TfLiteNode* node) {
  return Prepare(context, node, LayerKind::kDepthwise, kDepthwiseGradientName);
}
TfLiteStatus PrepareDense(TfLiteContext* context, TfLiteNode* node) {
  return Prepare(context, node, LayerKind::kDense, kDenseGradientName);
}

}  // namespace

TFLMRegistration RegisterConvGradient() {
  return tflite::micro::RegisterOp(Init, PrepareConv, Eval);
}
TFLMRegistration RegisterDepthwiseGradient() {
  return tflite::micro::RegisterOp(Init, PrepareDepthwise, Eval);
}
TFLMRegistration RegisterDenseGradient() {
  return tflite::micro::RegisterOp(Init, PrepareDense, Eval);
}

}  // namespace tflm_train
