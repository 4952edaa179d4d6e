// Stand-in for tests without a TFLM tree: runs a graph of custom operators and dense layers. Every
// tensor has memory of its own; TFLM's plan of the arena is not imitated. No heap, no constructors
// before main.
#ifndef TFLM_TRAIN_TESTING_MICRO_INTERPRETER_H_
#define TFLM_TRAIN_TESTING_MICRO_INTERPRETER_H_

#include <cstring>

#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"

namespace tflite {

class MicroInterpreter : private MicroContext {
 public:
  MicroInterpreter(const Model* model, const MicroOpResolver& resolver, uint8_t* arena, size_t size)
      : model_(model),
        graph_(model->subgraphs()->Get(0)),
        resolver_(resolver),
        arena_(arena),
        size_(size) {
    context_.impl_ = static_cast<MicroContext*>(this);
    context_.ReportError = Report;
    context_.AllocatePersistentBuffer = Persistent;
    context_.RequestScratchBufferInArena = RequestScratch;
    context_.GetScratchBuffer = GetScratch;
    context_.GetEvalTensor = GetEval;
  }

  TfLiteStatus AllocateTensors() {
    const uint32_t tensors = graph_->tensors()->size(), nodes = graph_->operators()->size();
    eval_ = static_cast<TfLiteEvalTensor*>(Take(tensors * sizeof(TfLiteEvalTensor)));
    nodes_ = static_cast<Node*>(Take(nodes * sizeof(Node)));
    if (eval_ == nullptr || nodes_ == nullptr) return kTfLiteError;
    for (uint32_t i = 0; i < tensors; ++i) TF_LITE_ENSURE_STATUS(Bind(i));
    for (uint32_t i = 0; i < nodes; ++i) TF_LITE_ENSURE_STATUS(Initialise(i));
    for (uint32_t i = 0; i < nodes; ++i) {
      if (nodes_[i].registration->prepare(&context_, &nodes_[i].node) != kTfLiteOk) {
        MicroPrintf("Node number %d failed to prepare", static_cast<int>(i));
        return kTfLiteError;
      }
    }
    for (uint32_t i = 0; i < tensors; ++i) {
      if (eval_[i].data.data != nullptr) continue;
      eval_[i].data.data = Take(BytesOf(i));
      if (eval_[i].data.data == nullptr) return kTfLiteError;
    }
    for (int i = 0; i < scratch_count_; ++i) {
      scratch_[i].data = Take(scratch_[i].bytes);
      if (scratch_[i].data == nullptr) return kTfLiteError;
    }
    ready_ = true;
    return Reset();
  }

  TfLiteStatus Invoke() {
    if (!ready_) return kTfLiteError;
    for (uint32_t i = 0; i < graph_->operators()->size(); ++i) {
      TF_LITE_ENSURE_STATUS(nodes_[i].registration->invoke(&context_, &nodes_[i].node));
    }
    return kTfLiteOk;
  }

  TfLiteStatus Reset() {
    for (uint32_t i = 0; i < graph_->tensors()->size(); ++i) {
      if (graph_->tensors()->Get(i)->is_variable()) memset(eval_[i].data.data, 0, BytesOf(i));
    }
    return kTfLiteOk;
  }

  TfLiteTensor* input(size_t i) { return Describe(graph_->inputs(), i, &inputs_[i]); }
  TfLiteTensor* output(size_t i) { return Describe(graph_->outputs(), i, &outputs_[i]); }
  size_t inputs_size() const { return graph_->inputs()->size(); }
  size_t outputs_size() const { return graph_->outputs()->size(); }
  size_t arena_used_bytes() const { return used_; }

 private:
  static constexpr int kMost = 24;
  struct Node {
    TfLiteNode node;
    const TFLMRegistration* registration;
  };
  struct ScratchBuffer {
    void* data;
    size_t bytes;
  };

  static MicroInterpreter* Of(const TfLiteContext* context) {
    return static_cast<MicroInterpreter*>(static_cast<MicroContext*>(context->impl_));
  }
  static void Report(TfLiteContext*, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    VMicroPrintf(format, arguments);
    va_end(arguments);
  }
  static void* Persistent(TfLiteContext* context, size_t bytes) { return Of(context)->Take(bytes); }
  static TfLiteStatus RequestScratch(TfLiteContext* context, size_t bytes, int* index) {
    MicroInterpreter* self = Of(context);
    if (self->scratch_count_ == kMost) return kTfLiteError;
    *index = self->scratch_count_++;
    self->scratch_[*index] = {nullptr, bytes};
    return kTfLiteOk;
  }
  static void* GetScratch(TfLiteContext* context, int index) {
    return Of(context)->scratch_[index].data;
  }
  static TfLiteEvalTensor* GetEval(const TfLiteContext* context, int index) {
    return &Of(context)->eval_[index];
  }

  void* Take(size_t bytes) {
    const size_t begin = (used_ + 15) & ~static_cast<size_t>(15);
    if (begin + bytes > size_) {
      MicroPrintf("Arena too small: %d bytes of %d in use, %d more needed", static_cast<int>(begin),
                  static_cast<int>(size_), static_cast<int>(bytes));
      return nullptr;
    }
    used_ = begin + bytes;
    memset(arena_ + begin, 0, bytes);
    return arena_ + begin;
  }

  size_t BytesOf(uint32_t i) const {
    size_t bytes = eval_[i].type == kTfLiteInt32 ? 4 : eval_[i].type == kTfLiteUInt16 ? 2 : 1;
    for (int d = 0; d < eval_[i].dims->size; ++d) bytes *= eval_[i].dims->data[d];
    return bytes;
  }

  template <class T>
  static TfLiteIntArray* ArrayOf(const flatbuffers::Vector<T>* vector) {
    static const TfLiteIntArray kNone = {};
    const void* found = vector == nullptr ? static_cast<const void*>(&kNone) : vector;
    return static_cast<TfLiteIntArray*>(const_cast<void*>(found));
  }

  TfLiteStatus Bind(uint32_t i) {
    const Tensor* tensor = graph_->tensors()->Get(i);
    switch (tensor->type()) {
      case TensorType_INT32:
        eval_[i].type = kTfLiteInt32;
        break;
      case TensorType_UINT8:
        eval_[i].type = kTfLiteUInt8;
        break;
      case TensorType_INT8:
        eval_[i].type = kTfLiteInt8;
        break;
      case TensorType_UINT16:
        eval_[i].type = kTfLiteUInt16;
        break;
      default:
        return kTfLiteError;
    }
    eval_[i].dims = ArrayOf(tensor->shape());
    const auto* data = model_->buffers()->Get(tensor->buffer())->data();
    eval_[i].data.data = data == nullptr ? nullptr : const_cast<uint8_t*>(data->data());
    return kTfLiteOk;
  }

  TfLiteStatus Initialise(uint32_t i) {
    const Operator* op = graph_->operators()->Get(i);
    const OperatorCode* code = model_->operator_codes()->Get(op->opcode_index());
    const bool custom = code->builtin_code() == BuiltinOperator_CUSTOM;
    const char* name = custom ? code->custom_code()->c_str() : "builtin";
    Node& node = nodes_[i];
    node.registration = custom ? resolver_.FindOp(name) : resolver_.FindOp(code->builtin_code());
    if (node.registration == nullptr) {
      MicroPrintf("Failed to get registration from op code %s", custom ? "CUSTOM" : name);
      return kTfLiteError;
    }
    node.node = {ArrayOf(op->inputs()), ArrayOf(op->outputs()), nullptr, nullptr};
    if (!custom && op->fully_connected_options() != nullptr) {
      node.node.builtin_data = op->fully_connected_options()->activation();
    }
    const auto* options = op->custom_options();
    const char* bytes =
        options == nullptr ? nullptr : reinterpret_cast<const char*>(options->data());
    node.node.user_data =
        node.registration->init(&context_, bytes, options == nullptr ? 0 : options->size());
    return kTfLiteOk;
  }

  void Fill(uint32_t i, TfLiteTensor* tensor) {
    const Tensor* source = graph_->tensors()->Get(i);
    const auto* q = source->quantization();
    *tensor = {};
    if (q != nullptr && q->scale() != nullptr && q->scale()->size() > 0) {
      tensor->params.scale = q->scale()->Get(0);
      tensor->params.zero_point = static_cast<int32_t>(q->zero_point()->Get(0));
    }
    tensor->data = eval_[i].data;
    tensor->dims = eval_[i].dims;
    tensor->type = eval_[i].type;
    tensor->bytes = BytesOf(i);
    tensor->is_variable = source->is_variable();
  }
  TfLiteTensor* Describe(const flatbuffers::Vector<int32_t>* list, size_t i, TfLiteTensor* to) {
    if (i >= list->size()) return nullptr;
    Fill(static_cast<uint32_t>(list->Get(static_cast<uint32_t>(i))), to);
    return to;
  }

  TfLiteTensor* AllocateTempTfLiteTensor(int index) override {
    for (int i = 0; i < kMost; ++i) {
      if (temp_used_[i]) continue;
      temp_used_[i] = true;
      Fill(static_cast<uint32_t>(index), &temps_[i]);
      return &temps_[i];
    }
    return nullptr;
  }
  void DeallocateTempTfLiteTensor(TfLiteTensor* tensor) override {
    temp_used_[tensor - temps_] = false;
  }

  const Model* model_;
  const SubGraph* graph_;
  const MicroOpResolver& resolver_;
  uint8_t* arena_;
  size_t size_, used_ = 0;
  TfLiteContext context_ = {};
  TfLiteEvalTensor* eval_ = nullptr;
  Node* nodes_ = nullptr;
  ScratchBuffer scratch_[kMost] = {};
  int scratch_count_ = 0;
  TfLiteTensor temps_[kMost] = {}, inputs_[kMost] = {}, outputs_[kMost] = {};
  bool temp_used_[kMost] = {};
  bool ready_ = false;
};

}  // namespace tflite

#endif  // TFLM_TRAIN_TESTING_MICRO_INTERPRETER_H_
