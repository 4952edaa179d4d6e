#include "micro_ops/tflm/exact_head_trainer.h"

#include "micro_ops/core/niti_loss.h"
#include "micro_ops/core/zo_loss.h"
#include "tensorflow/lite/micro/micro_log.h"

namespace tflm_train {
namespace {

constexpr double kLog2E = 1.4426950408889634;
constexpr int32_t kLimit = 126;

}  // namespace

ExactHeadTrainer::ExactHeadTrainer(const tflite::Model* model,
                                   const tflite::MicroOpResolver& resolver, uint8_t* arena,
                                   size_t arena_bytes, const ExactHeadOptions& options)
    : model_(model, resolver, arena, arena_bytes), options_(options) {}

size_t ExactHeadTrainer::MemoryBytes() const {
  const size_t weights = model_.WeightBytes();
  return weights == 0 ? 0 : weights + 4 * static_cast<size_t>(model_.list().classes);
}

// The one trainable tensor must be the weights of the dense layer that makes the logits, and that
// layer the last operator: what it reads is then still there after Invoke().
bool ExactHeadTrainer::FindHead() {
  const TrainableList& list = model_.list();
  const auto* graph = model_.model()->subgraphs()->Get(0);
  if (list.count != 1 || list.tensors[0].is_bias) return false;
  if (static_cast<uint32_t>(list.tensors[0].op) + 1 != graph->operators()->size()) return false;
  const auto* op = graph->operators()->Get(static_cast<uint32_t>(list.tensors[0].op));
  const auto* code = model_.model()->operator_codes()->Get(op->opcode_index());
  if (code->builtin_code() != tflite::BuiltinOperator_FULLY_CONNECTED) return false;
  if (op->outputs()->Get(0) != list.logits) return false;
  const auto* input = graph->tensors()->Get(static_cast<uint32_t>(op->inputs()->Get(0)));
  const uint32_t classes = static_cast<uint32_t>(list.classes);
  if (list.tensors[0].size % classes != 0 || input->quantization() == nullptr) return false;
  const double scale = static_cast<double>(list.logits_scale) * kLog2E * 65536.0;
  if (scale + 0.5 >= static_cast<double>(kZoMaxLossMult) || list.classes > kZoMaxClasses) {
    return false;
  }
  head_.classes = list.classes;
  head_.inputs = static_cast<int32_t>(list.tensors[0].size / classes);
  head_.input_zero_point = static_cast<int32_t>(input->quantization()->zero_point()->Get(0));
  head_.loss_multiplier = scale < 1.0 ? 1 : static_cast<int32_t>(scale + 0.5);
  head_.limit = kLimit;
  head_.seed = options_.seed;
  head_.rate_q16 = options_.rate_q16;
  return true;
}

TrainStatus ExactHeadTrainer::Begin(uint8_t* memory, size_t bytes) {
  if (model_.list_status() != ListStatus::kOk) return TrainStatus::kNoTrainingEntry;
  if (options_.rate_q16 > 1u << 24) return TrainStatus::kOptions;
  if (!FindHead()) return TrainStatus::kUnsupported;
  if (bytes < MemoryBytes()) {
    MicroPrintf("tflm_train: needed %d bytes for the weights of the last layer, given %d",
                static_cast<int>(MemoryBytes()), static_cast<int>(bytes));
    return TrainStatus::kMemory;
  }
  const TrainStatus status = model_.Begin(memory, bytes, options_.stale);
  head_.weights = static_cast<int8_t*>(model_.weights(0));
  error_ = reinterpret_cast<int32_t*>(memory + model_.WeightBytes());
  step_ = 0;
  return status;
}

TrainStatus ExactHeadTrainer::Train(const SampleSource& samples, int32_t count, int32_t* correct) {
  int32_t right = 0;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t label = samples.label(samples.context, i);
    if (label < 0 || label >= head_.classes) return TrainStatus::kOptions;
    const int8_t* x = samples.input(samples.context, i);
    const int8_t* logits = x == nullptr ? nullptr : model_.Run(x);
    if (logits == nullptr) return TrainStatus::kInvoke;
    right += NitiArgMax(logits, head_.classes) == label ? 1 : 0;
    if (ExactHeadStep(head_, model_.input_of(0), logits, label, step_++, error_) > 0) {
      model_.WeightsChanged();
    }
  }
  if (correct != nullptr) *correct = right;
  return TrainStatus::kOk;
}

int32_t ExactHeadTrainer::Parts(CheckpointPart* parts, int32_t capacity) {
  if (capacity < 2) return -1;
  parts[0] = {&step_, sizeof(step_)};
  parts[1] = {head_.weights, static_cast<uint32_t>(head_.classes * head_.inputs)};
  return 2;
}

}  // namespace tflm_train
