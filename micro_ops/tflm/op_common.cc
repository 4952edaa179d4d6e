#include "micro_ops/tflm/op_common.h"

#include "micro_ops/trainer/train_scratch.h"

namespace tflm_train {
namespace {

constexpr int32_t kMaxSide = 32767;
constexpr int32_t kMaxKernel = 255;

// Every window starts inside the padded input and touches the input itself.
bool GoodWindows(int32_t in, int32_t out, int32_t kernel, int32_t stride, int32_t pad) {
  return in > 0 && in <= kMaxSide && out > 0 && out <= kMaxSide && kernel > 0 &&
         kernel <= kMaxKernel && stride > 0 && stride <= kMaxSide && pad >= 0 && pad < kernel &&
         static_cast<int64_t>(out - 1) * stride - pad < in;
}

bool GoodBitmask(const LayerShape& shape, const uint8_t* mask, int32_t count) {
  int32_t set = 0;
  for (int32_t edge = 0; edge < shape.weight_size(); ++edge) {
    set += (mask[edge >> 3] >> (edge & 7)) & 1;
  }
  return set == count;
}

bool GoodIndexList(const LayerShape& shape, const uint16_t* counts, int32_t count) {
  const uint16_t* places = counts + shape.rows;
  int32_t at = 0;
  for (int32_t row = 0; row < shape.rows; ++row) {
    if (counts[row] > count - at) return false;
    for (int32_t i = 0; i < counts[row]; ++i, ++at) {
      if (places[at] >= shape.row_size || (i > 0 && places[at] <= places[at - 1])) return false;
    }
  }
  return at == count;
}

}  // namespace

TempTensor TempTensor::Input(TfLiteContext* context, const TfLiteNode* node, int index) {
  if (!HasInput(node, index)) return TempTensor(context, nullptr);
  return TempTensor(context,
                    tflite::GetMicroContext(context)->AllocateTempInputTensor(node, index));
}

TempTensor TempTensor::Output(TfLiteContext* context, const TfLiteNode* node, int index) {
  if (index >= node->outputs->size) return TempTensor(context, nullptr);
  return TempTensor(context,
                    tflite::GetMicroContext(context)->AllocateTempOutputTensor(node, index));
}

TempTensor::~TempTensor() {
  if (tensor_ != nullptr) tflite::GetMicroContext(context_)->DeallocateTempTfLiteTensor(tensor_);
}

int32_t TempTensor::elements() const {
  int32_t size = 1;
  for (int i = 0; i < rank(); ++i) size *= dim(i);
  return size;
}

bool HasInput(const TfLiteNode* node, int index) {
  return index < node->inputs->size && node->inputs->data[index] >= 0;
}

TfLiteStatus ReadLayerShape(TfLiteContext* context, const char* name, LayerKind kind,
                            const TempTensor& input, const TempTensor& weights,
                            const TempTensor& output, int32_t stride_height, int32_t stride_width,
                            int32_t pad_top, int32_t pad_left, LayerShape* shape) {
  TFLM_TRAIN_ENSURE(context, name, input && weights && output,
                    "an input, weights and an output, got none");
  TFLM_TRAIN_ENSURE(context, name, input.is_symmetric(), "an int8 input with zero point 0");
  TFLM_TRAIN_ENSURE(context, name, weights.is_symmetric(), "int8 weights with zero point 0");
  TFLM_TRAIN_ENSURE(context, name, output.is_symmetric(), "an int8 output with zero point 0");
  TFLM_TRAIN_ENSURE(context, name, input.rank() >= 2 && input.dim(0) == 1, "batch 1");
  shape->kind = kind;
  shape->in_size = input.elements();
  shape->out_size = output.elements();
  if (kind == LayerKind::kDense) {
    TFLM_TRAIN_ENSURE(context, name, weights.rank() == 2, "weights of rank 2");
    shape->dense = {weights.dim(1), weights.dim(0)};
    shape->rows = weights.dim(0);
    shape->row_size = weights.dim(1);
    TFLM_TRAIN_ENSURE(context, name, shape->rows > 0 && shape->row_size == shape->in_size,
                      "as many inputs as the weights have columns");
    TFLM_TRAIN_ENSURE(context, name, shape->out_size == shape->rows,
                      "as many outputs as the weights have rows");
    return kTfLiteOk;
  }
  const bool depthwise = kind == LayerKind::kDepthwise;
  TFLM_TRAIN_ENSURE(context, name, input.rank() == 4 && weights.rank() == 4 && output.rank() == 4,
                    "input, weights and output of rank 4");
  ConvShape& s = shape->conv;
  s = {input.dim(1),   input.dim(2),   input.dim(3),  output.dim(1), output.dim(2), output.dim(3),
       weights.dim(1), weights.dim(2), stride_height, stride_width,  pad_top,       pad_left};
  TFLM_TRAIN_ENSURE(
      context, name,
      GoodWindows(s.in_height, s.out_height, s.kernel_height, s.stride_height, s.pad_top) &&
          GoodWindows(s.in_width, s.out_width, s.kernel_width, s.stride_width, s.pad_left),
      "windows that touch their input");
  TFLM_TRAIN_ENSURE(context, name, s.in_channels > 0 && s.out_channels > 0, "channels");
  TFLM_TRAIN_ENSURE(context, name, output.dim(0) == 1, "batch 1");
  if (depthwise) {
    TFLM_TRAIN_ENSURE(context, name,
                      weights.dim(0) == 1 && weights.dim(3) == s.out_channels &&
                          s.out_channels % s.in_channels == 0,
                      "weights [1, height, width, output channels]");
    shape->rows = 1;
    shape->row_size = DepthwiseWeightSize(s);
  } else {
    TFLM_TRAIN_ENSURE(context, name,
                      weights.dim(0) == s.out_channels && weights.dim(3) == s.in_channels,
                      "weights [output channels, height, width, input channels]");
    shape->rows = s.out_channels;
    shape->row_size = ConvRowSize(s);
  }
  return kTfLiteOk;
}

TfLiteStatus CheckScores(TfLiteContext* context, const char* name, const LayerShape& shape,
                         int32_t storage, int32_t threshold, const TempTensor& scores,
                         const TempTensor& scored) {
  TFLM_TRAIN_ENSURE(context, name, scores.is_int8(), "int8 scores");
  TFLM_TRAIN_ENSURE(context, name, threshold >= -128 && threshold <= 127,
                    "a threshold of -128 to 127");
  TFLM_TRAIN_ENSURE(context, name, storage >= 0 && storage <= 2, "a score storage of 0 to 2");
  const int32_t count = scores.elements();
  if (storage == 0) {
    TFLM_TRAIN_ENSURE(context, name, count == shape.weight_size(), "one score per edge");
    return kTfLiteOk;
  }
  TFLM_TRAIN_ENSURE(context, name, scored && scored->data.data != nullptr,
                    "a constant tensor of scored edges");
  if (storage == 1) {
    TFLM_TRAIN_ENSURE(context, name, scored->type == kTfLiteUInt8, "a bitmask as uint8");
    TFLM_TRAIN_ENSURE(context, name, scored.elements() == (shape.weight_size() + 7) / 8,
                      "one bit per edge");
    TFLM_TRAIN_ENSURE(context, name, GoodBitmask(shape, scored->data.uint8, count),
                      "one score per bit that is set");
    return kTfLiteOk;
  }
  TFLM_TRAIN_ENSURE(context, name, scored->type == kTfLiteUInt16, "an index list as uint16");
  TFLM_TRAIN_ENSURE(context, name, scored.elements() == shape.rows + count,
                    "a count per row and a place per score");
  const uint16_t* list = static_cast<const uint16_t*>(scored->data.data);
  TFLM_TRAIN_ENSURE(context, name, GoodIndexList(shape, list, count),
                    "ascending places inside each row");
  return kTfLiteOk;
}

ScoreView ViewScores(const LayerShape& shape, int32_t storage, int32_t threshold, int8_t* scores,
                     const void* scored) {
  ScoreView view = {scores,  nullptr,   nullptr,
                    nullptr, threshold, static_cast<ScoreStorage>(storage)};
  if (view.storage == ScoreStorage::kBitmask) view.scored = static_cast<const uint8_t*>(scored);
  if (view.storage == ScoreStorage::kIndexList) {
    view.row_counts = static_cast<const uint16_t*>(scored);
    view.indices = view.row_counts + shape.rows;
  }
  return view;
}

TfLiteStatus CheckState(TfLiteContext* context, const char* name, const TempTensor& state) {
  TFLM_TRAIN_ENSURE(context, name, state && state->type == kTfLiteInt32 && state->is_variable,
                    "the training state as an int32 variable");
  TFLM_TRAIN_ENSURE(context, name, state.elements() == kTrainStateWords,
                    "a training state of 8 words");
  return kTfLiteOk;
}

int32_t LayerScratch(const LayerShape& shape, int32_t storage) {
  const ScratchKind kind = storage < 0    ? ScratchKind::kWeights
                           : storage == 0 ? ScratchKind::kDense
                                          : ScratchKind::kPacked;
  switch (shape.kind) {
    case LayerKind::kConv:
      return TrainConvScratch(shape.conv, kind);
    case LayerKind::kDepthwise:
      return TrainDepthwiseScratch(shape.conv, kind);
    case LayerKind::kDense:
      return TrainDenseScratch(shape.dense, kind);
  }
  return 0;
}

TfLiteStatus RequestScratch(TfLiteContext* context, int32_t bytes, int* index) {
  *index = -1;
  if (bytes == 0) return kTfLiteOk;
  return context->RequestScratchBufferInArena(context, static_cast<size_t>(bytes), index);
}

void* Scratch(TfLiteContext* context, int index) {
  return index < 0 ? nullptr : context->GetScratchBuffer(context, index);
}

}  // namespace tflm_train
