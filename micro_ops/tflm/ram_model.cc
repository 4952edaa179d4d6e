#include "micro_ops/tflm/ram_model.h"

#include <cstring>
#include <new>

#include "micro_ops/core/counter_rng.h"
#include "micro_ops/trainer/crc32.h"
#include "tensorflow/lite/micro/micro_log.h"

namespace tflm_train {
namespace {

constexpr int32_t kHooks = 3;
constexpr tflite::BuiltinOperator kHookedOps[kHooks] = {
    tflite::BuiltinOperator_FULLY_CONNECTED,
    tflite::BuiltinOperator_CONV_2D,
    tflite::BuiltinOperator_DEPTHWISE_CONV_2D,
};
constexpr uint32_t kCanaryTries = 8;

// A Prepare function has no argument for the object it serves, so the object stands here while
// AllocateTensors runs. Constant initialisation: no constructor before main.
RamModel* preparing = nullptr;
TfLiteStatus (*inner_prepare[kHooks])(TfLiteContext*, TfLiteNode*) = {};

size_t Align(size_t bytes) { return (bytes + 15) & ~static_cast<size_t>(15); }
size_t BytesOf(const TrainableTensor& t) { return t.size * (t.is_bias ? 4u : 1u); }

}  // namespace

const char* TrainStatusText(TrainStatus status) {
  static constexpr const char* kTexts[] = {
      "ok",
      "no usable training entry in the model: convert it with tflm-train",
      "the model has several inputs, or its logits are overwritten by later operators",
      "not enough memory",
      "AllocateTensors failed",
      "the kernels keep results of old weights",
      "a weight leaves no room for a perturbation",
      "Invoke failed",
      "an option is out of its range",
  };
  return kTexts[static_cast<int32_t>(status)];
}

const char* RamModel::StaleAdvice() {
  return "build TFLM with OPTIMIZE_KERNELS_FOR=KERNELS_OPTIMIZED_FOR_SIZE, or without "
         "OPTIMIZED_KERNEL_DIR=cmsis_nn, or begin with StalePolicy::kReprepare";
}

const TFLMRegistration* RamModel::Resolver::FindOp(tflite::BuiltinOperator op) const {
  const TFLMRegistration* found = inner_.FindOp(op);
  if (found == nullptr) return nullptr;
  static constexpr TfLiteStatus (*kHook[kHooks])(TfLiteContext*, TfLiteNode*) = {
      HookedPrepare<0>, HookedPrepare<1>, HookedPrepare<2>};
  for (int32_t i = 0; i < kHooks; ++i) {
    if (kHookedOps[i] != op) continue;
    inner_prepare[i] = found->prepare;
    hooked_[i] = *found;
    hooked_[i].prepare = kHook[i];
    return &hooked_[i];
  }
  return found;
}

template <int kSlot>
TfLiteStatus RamModel::HookedPrepare(TfLiteContext* context, TfLiteNode* node) {
  if (preparing != nullptr) preparing->Redirect(context, node);
  return inner_prepare[kSlot](context, node);
}

void RamModel::Redirect(TfLiteContext* context, const TfLiteNode* node) {
  for (int32_t i = 0; i < list_.count; ++i) {
    for (int slot = 1; slot < node->inputs->size && slot < 3; ++slot) {
      if (node->inputs->data[slot] != list_.tensors[i].tensor) continue;
      context->GetEvalTensor(context, list_.tensors[i].tensor)->data.data = weights_[i];
      inputs_[i] = context->GetEvalTensor(context, node->inputs->data[0]);
    }
  }
  logits_ = context->GetEvalTensor(context, list_.logits);
}

RamModel::RamModel(const tflite::Model* model, const tflite::MicroOpResolver& resolver,
                   uint8_t* arena, size_t arena_bytes)
    : model_(model), resolver_(resolver), arena_(arena), arena_bytes_(arena_bytes) {
  list_status_ = FindTrainable(model, &list_);
}

RamModel::~RamModel() {
  if (interpreter_ != nullptr) interpreter_->~MicroInterpreter();
}

size_t RamModel::WeightBytes() const {
  size_t bytes = 0;
  for (int32_t i = 0; i < list_.count; ++i) bytes += Align(BytesOf(list_.tensors[i]));
  return list_status_ == ListStatus::kOk ? bytes : 0;
}

void RamModel::RestoreInitial() {
  for (int32_t i = 0; i < list_.count; ++i) {
    memcpy(weights_[i], list_.tensors[i].initial, BytesOf(list_.tensors[i]));
  }
}

// A new interpreter in the same arena; kernels prepare themselves with the weights as they are now.
bool RamModel::Prepare() {
  if (interpreter_ != nullptr) interpreter_->~MicroInterpreter();
  interpreter_ = new (storage_) tflite::MicroInterpreter(model_, resolver_, arena_, arena_bytes_);
  preparing = this;
  const TfLiteStatus status = interpreter_->AllocateTensors();
  preparing = nullptr;
  changed_ = false;
  return status == kTfLiteOk;
}

// Nothing may write over the logits between the operator that makes them and the end of Invoke:
// they are an output of the graph, or what its last operator reads.
bool RamModel::LogitsSurvive() const {
  const auto* graph = model_->subgraphs()->Get(0);
  for (uint32_t i = 0; i < graph->outputs()->size(); ++i) {
    if (graph->outputs()->Get(i) == list_.logits) return true;
  }
  const auto* last = graph->operators()->Get(graph->operators()->size() - 1);
  for (uint32_t i = 0; i < last->inputs()->size(); ++i) {
    if (last->inputs()->Get(i) == list_.logits) return true;
  }
  return false;
}

TrainStatus RamModel::Begin(uint8_t* memory, size_t bytes, StalePolicy policy) {
  if (list_status_ != ListStatus::kOk) return TrainStatus::kNoTrainingEntry;
  if (model_->subgraphs()->Get(0)->inputs()->size() != 1 || !LogitsSurvive()) {
    return TrainStatus::kUnsupported;
  }
  if (bytes < WeightBytes()) {
    MicroPrintf("tflm_train: needed %d bytes for the trainable tensors, given %d",
                static_cast<int>(WeightBytes()), static_cast<int>(bytes));
    return TrainStatus::kMemory;
  }
  for (int32_t i = 0; i < list_.count; ++i) {
    weights_[i] = memory;
    memory += Align(BytesOf(list_.tensors[i]));
  }
  RestoreInitial();
  stale_ = false;
  if (!Prepare() || logits_ == nullptr) {
    MicroPrintf("tflm_train: AllocateTensors failed with an arena of %d bytes",
                static_cast<int>(arena_bytes_));
    return TrainStatus::kAllocate;
  }
  for (int32_t i = 0; i < list_.count; ++i) {
    if (inputs_[i] == nullptr) return TrainStatus::kUnsupported;
  }
  input_bytes_ = interpreter_->input(0)->bytes;
  const TrainStatus status = Canary();
  if (status != TrainStatus::kOk) return status;
  if (stale_ && policy == StalePolicy::kRefuse) {
    MicroPrintf("tflm_train: %s: %s", TrainStatusText(TrainStatus::kStaleKernels), StaleAdvice());
    return TrainStatus::kStaleKernels;
  }
  return TrainStatus::kOk;
}

// Random values in tensor i; false for an empty tensor.
bool RamModel::Scramble(int32_t i, uint32_t round) {
  const TrainableTensor& t = list_.tensors[i];
  const uint32_t key = RngKey(0x5ca7, round, static_cast<uint32_t>(i));
  uint32_t reach = 4;
  if (t.is_bias) {
    for (uint32_t j = 0; j < t.size; ++j) {
      int32_t value;
      memcpy(&value, static_cast<const uint8_t*>(t.initial) + 4 * j, 4);
      const uint32_t magnitude = static_cast<uint32_t>(value < 0 ? -value : value) & 0x0fffffffu;
      if (4 * magnitude > reach) reach = 4 * magnitude;
    }
  }
  for (uint32_t j = 0; j < t.size; ++j) {
    const uint32_t word = RngWord(key, j);
    if (t.is_bias) {
      static_cast<int32_t*>(weights_[i])[j] =
          static_cast<int32_t>(word % (2 * reach + 1)) - static_cast<int32_t>(reach);
    } else {
      static_cast<int8_t*>(weights_[i])[j] =
          static_cast<int8_t>(static_cast<int32_t>(word % 253) - 126);
    }
  }
  return t.size > 0;
}

// CRC of the logits for a fixed pattern; 0 when Invoke fails.
uint32_t RamModel::LogitsCrc() {
  int8_t* input = static_cast<int8_t*>(interpreter_->input(0)->data.data);
  for (uint32_t j = 0; j < input_bytes_; ++j) {
    input[j] = static_cast<int8_t>(RngWord(0xca9a51u, j) >> 24);
  }
  if (interpreter_->Invoke() != kTfLiteOk) return 0;
  return Crc32(logits_->data.data, static_cast<uint32_t>(list_.classes));
}

// For each trainable tensor: other values in place must give what kernels prepared with those
// values give. A tensor whose values show in no logit cannot be stale to any effect either.
TrainStatus RamModel::Canary() {
  const uint32_t before = LogitsCrc();
  if (before == 0) return TrainStatus::kInvoke;
  for (int32_t i = 0; i < list_.count && !stale_; ++i) {
    for (uint32_t round = 0; round < kCanaryTries; ++round) {
      if (!Scramble(i, round)) break;
      const uint32_t in_place = LogitsCrc();
      if (!Prepare()) return TrainStatus::kAllocate;
      const uint32_t prepared = LogitsCrc();
      RestoreInitial();
      if (!Prepare()) return TrainStatus::kAllocate;
      if (in_place == 0 || prepared == 0) return TrainStatus::kInvoke;
      if (in_place != prepared) stale_ = true;
      if (stale_ || prepared != before) break;
    }
  }
  return TrainStatus::kOk;
}

const int8_t* RamModel::Run(const int8_t* x) {
  if (changed_ && stale_ && !Prepare()) return nullptr;
  changed_ = false;
  memcpy(interpreter_->input(0)->data.data, x, input_bytes_);
  if (interpreter_->Invoke() != kTfLiteOk) return nullptr;
  return static_cast<const int8_t*>(logits_->data.data);
}

const int8_t* RamModel::input_of(int32_t i) const {
  return static_cast<const int8_t*>(inputs_[i]->data.data);
}

}  // namespace tflm_train
