// Checks and look-ups that the operators share. Everything here runs in Prepare on data of the
// flatbuffer, which is trusted partly: shapes and sizes are checked once, so that Eval need not.
#ifndef TFLM_TRAIN_MICRO_OPS_TFLM_OP_COMMON_H_
#define TFLM_TRAIN_MICRO_OPS_TFLM_OP_COMMON_H_

#include "micro_ops/core/niti_layers.h"
#include "micro_ops/core/priot_scores.h"
#include "micro_ops/tflm/op_options.h"
#include "micro_ops/tflm/train_state.h"
#include "tensorflow/lite/micro/kernels/kernel_util.h"

namespace tflm_train {

// Refuses with a message that names the operator: `name` is a `const char*`, `what` a literal.
#define TFLM_TRAIN_ENSURE(context, name, condition, what) \
  TF_LITE_ENSURE_MSG(context, condition, "%s: expected " what, name)

// A temporary TfLiteTensor of Prepare that is given back at the end of its scope; null for an
// optional input that is not there.
class TempTensor {
 public:
  static TempTensor Input(TfLiteContext* context, const TfLiteNode* node, int index);
  static TempTensor Output(TfLiteContext* context, const TfLiteNode* node, int index);
  TempTensor(TempTensor&& other) : context_(other.context_), tensor_(other.tensor_) {
    other.tensor_ = nullptr;
  }
  ~TempTensor();
  TempTensor(const TempTensor&) = delete;
  TempTensor& operator=(const TempTensor&) = delete;

  explicit operator bool() const { return tensor_ != nullptr; }
  const TfLiteTensor* operator->() const { return tensor_; }
  int rank() const { return tensor_->dims->size; }
  int32_t dim(int i) const { return tensor_->dims->data[i]; }
  int32_t elements() const;
  bool is_int8() const { return tensor_->type == kTfLiteInt8; }
  // int8 with zero point 0, as all activations of these graphs are.
  bool is_symmetric() const { return is_int8() && tensor_->params.zero_point == 0; }

 private:
  TempTensor(TfLiteContext* context, TfLiteTensor* tensor) : context_(context), tensor_(tensor) {}
  TfLiteContext* context_;
  TfLiteTensor* tensor_;
};

bool HasInput(const TfLiteNode* node, int index);

template <class T>
const T* InputData(TfLiteContext* context, const TfLiteNode* node, int index) {
  if (!HasInput(node, index)) return nullptr;
  return tflite::micro::GetTensorData<T>(tflite::micro::GetEvalInput(context, node, index));
}
template <class T>
T* MutableInputData(TfLiteContext* context, const TfLiteNode* node, int index) {
  if (!HasInput(node, index)) return nullptr;
  return tflite::micro::GetTensorData<T>(tflite::micro::GetMutableEvalInput(context, node, index));
}
template <class T>
T* OutputData(TfLiteContext* context, const TfLiteNode* node, int index) {
  return tflite::micro::GetTensorData<T>(tflite::micro::GetEvalOutput(context, node, index));
}

enum class LayerKind : int32_t { kConv, kDepthwise, kDense };

// What the forward and the gradient operator of a layer know about it after Prepare.
struct LayerShape {
  LayerKind kind;
  ConvShape conv;
  DenseShape dense;
  int32_t rows, row_size;
  int32_t in_size, out_size;
  int32_t weight_size() const { return rows * row_size; }
};

// From the tensors and the strides and padding of the options.
TfLiteStatus ReadLayerShape(TfLiteContext* context, const char* name, LayerKind kind,
                            const TempTensor& input, const TempTensor& weights,
                            const TempTensor& output, int32_t stride_height, int32_t stride_width,
                            int32_t pad_top, int32_t pad_left, LayerShape* shape);

// Scores and scored edges fit the storage and the layer, so that VisitScored stays inside them.
TfLiteStatus CheckScores(TfLiteContext* context, const char* name, const LayerShape& shape,
                         int32_t storage, int32_t threshold, const TempTensor& scores,
                         const TempTensor& scored);
ScoreView ViewScores(const LayerShape& shape, int32_t storage, int32_t threshold, int8_t* scores,
                     const void* scored);

TfLiteStatus CheckState(TfLiteContext* context, const char* name, const TempTensor& state);

// Bytes of scratch of the training kernels for a layer; `storage` is that of the scores, or -1.
int32_t LayerScratch(const LayerShape& shape, int32_t storage);
TfLiteStatus RequestScratch(TfLiteContext* context, int32_t bytes, int* index);
void* Scratch(TfLiteContext* context, int index);

template <class Data>
void* AllocateData(TfLiteContext* context) {
  return context->AllocatePersistentBuffer(context, sizeof(Data));
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TFLM_OP_COMMON_H_
