// Conveniences around a MicroInterpreter that holds a training graph: one call per sample, and the
// memory a checkpoint is made of. Header only; nothing here is needed to train by Invoke() alone.
#ifndef TFLM_TRAIN_MICRO_OPS_TFLM_TRAIN_SESSION_H_
#define TFLM_TRAIN_MICRO_OPS_TFLM_TRAIN_SESSION_H_

#include <cstring>

#include "micro_ops/tflm/train_state.h"
#include "micro_ops/trainer/checkpoint_store.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_log.h"

namespace tflm_train {

constexpr int32_t kInferOnly = -1;

// The smallest arena, to 16 bytes, in which `model` can be allocated; 0 when `bytes` are not
// enough. For a machine with memory to spare (an emulator, an early prototype): it allocates again
// and again inside `memory`, and TFLM complains about every size that is too small.
// arena_used_bytes() is less than this: planning takes memory that is free again afterwards.
inline size_t ArenaNeed(const tflite::Model* model, const tflite::MicroOpResolver& resolver,
                        uint8_t* memory, size_t bytes) {
  const auto fits = [&](size_t size) {
    return tflite::MicroInterpreter(model, resolver, memory, size).AllocateTensors() == kTfLiteOk;
  };
  size_t most = bytes / 16;
  if (!fits(16 * most)) return 0;
  for (size_t least = 64; least + 1 < most;) {
    const size_t middle = (least + most) / 2;
    (fits(16 * middle) ? most : least) = middle;
  }
  return 16 * most;
}

// False, with a line for each, when `resolver` lacks custom operators of the model. TFLM itself
// says only that a custom operator is missing, not which.
inline bool OpsRegistered(const tflite::Model* model, const tflite::MicroOpResolver& resolver) {
  bool all = true;
  for (uint32_t i = 0; i < model->operator_codes()->size(); ++i) {
    const auto* name = model->operator_codes()->Get(i)->custom_code();
    if (name == nullptr || resolver.FindOp(name->c_str()) != nullptr) continue;
    MicroPrintf("%s: not registered: call tflm_train::RegisterTrainOps(resolver)", name->c_str());
    all = false;
  }
  return all;
}

// Right after construction of the interpreter: allocates and checks that it is a training graph.
inline TfLiteStatus AllocateTraining(tflite::MicroInterpreter* interpreter,
                                     const tflite::Model* model,
                                     const tflite::MicroOpResolver& resolver, size_t arena_bytes) {
  if (!OpsRegistered(model, resolver)) return kTfLiteError;
  if (interpreter->AllocateTensors() != kTfLiteOk) {
    MicroPrintf(
        "tflm_train: AllocateTensors failed with an arena of %d bytes; if TFLM missed memory or "
        "had too many buffers, that is too small: ArenaNeed() finds how much it takes",
        static_cast<int>(arena_bytes));
    return kTfLiteError;
  }
  const bool graph = interpreter->inputs_size() == 2 && interpreter->outputs_size() >= 3 &&
                     interpreter->output(1)->bytes == sizeof(TrainState);
  if (!graph) {
    MicroPrintf(
        "tflm_train: expected a training graph with x and label, got another model: "
        "convert it with --graph train");
    return kTfLiteError;
  }
  return kTfLiteOk;
}

inline TrainState* StateOf(tflite::MicroInterpreter* interpreter) {
  return static_cast<TrainState*>(interpreter->output(1)->data.data);
}

// One sample: a training step with its label, inference with kInferOnly. The logits are
// interpreter->output(0), the guess is StateOf(interpreter)->guess.
inline TfLiteStatus RunSample(tflite::MicroInterpreter* interpreter, const int8_t* x,
                              int32_t label) {
  TfLiteTensor* input = interpreter->input(0);
  memcpy(input->data.data, x, input->bytes);
  *interpreter->input(1)->data.i32 = label;
  return interpreter->Invoke();
}

// The training state as pieces of memory for CheckpointSave and CheckpointLoad: TrainState, then
// the tensors that learn. Returns their number, or -1 when `capacity` is too small.
// interpreter->Reset() goes back to the initial scores of the file.
inline int32_t TrainingParts(tflite::MicroInterpreter* interpreter, CheckpointPart* parts,
                             int32_t capacity) {
  const int32_t count = static_cast<int32_t>(interpreter->outputs_size()) - 1;
  if (count > capacity) return -1;
  for (int32_t i = 0; i < count; ++i) {
    const TfLiteTensor* tensor = interpreter->output(static_cast<size_t>(i) + 1);
    parts[i] = {tensor->data.data, static_cast<uint32_t>(tensor->bytes)};
  }
  return count;
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TFLM_TRAIN_SESSION_H_
