// An ordinary .tflite in a MicroInterpreter whose trainable tensors lie in RAM: the rest of the
// model stays in flash. Proves at start that the kernels use weights changed in place, because some
// do not: CMSIS-NN on cores with MVE computes sums over constant FULLY_CONNECTED weights once, in
// Prepare, and goes on using them.
#ifndef TFLM_TRAIN_MICRO_OPS_TFLM_RAM_MODEL_H_
#define TFLM_TRAIN_MICRO_OPS_TFLM_RAM_MODEL_H_

#include <cstddef>
#include <cstdint>

#include "micro_ops/tflm/trainable_tensors.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_op_resolver.h"

namespace tflm_train {

enum class TrainStatus : int32_t {
  kOk = 0,
  kNoTrainingEntry = 1,  // the model was not converted by tflm-train, or its entry is damaged
  kUnsupported = 2,      // several inputs, or logits that later operators overwrite
  kMemory = 3,           // the memory given is too small; a message says needed and given bytes
  kAllocate = 4,         // AllocateTensors failed: see TFLM's own message
  kStaleKernels = 5,     // the kernels keep results of old weights: see RamModel::StaleAdvice()
  kHeadroom = 6,         // a weight so large that a perturbation could not be undone
  kInvoke = 7,           // Invoke failed
  kOptions = 8,          // an option out of its range
};
const char* TrainStatusText(TrainStatus status);

enum class StalePolicy : int32_t {
  kRefuse = 0,     // Begin returns kStaleKernels
  kReprepare = 1,  // every change of weights is followed by AllocateTensors: right, but slower
};

class RamModel {
 public:
  // Nothing is copied: model, resolver, arena and the memory of Begin must outlive this object.
  RamModel(const tflite::Model* model, const tflite::MicroOpResolver& resolver, uint8_t* arena,
           size_t arena_bytes);
  ~RamModel();
  RamModel(const RamModel&) = delete;
  RamModel& operator=(const RamModel&) = delete;

  // Bytes that Begin takes from its memory: a copy of every trainable tensor.
  size_t WeightBytes() const;

  // Copies the trainable tensors to `memory` (aligned to 16), allocates, and runs the canary.
  TrainStatus Begin(uint8_t* memory, size_t bytes, StalePolicy policy);

  // Int8 logits of a sample with the weights as they are, or nullptr. After a change of weights
  // call WeightsChanged() first.
  const int8_t* Run(const int8_t* x);
  void WeightsChanged() { changed_ = true; }

  bool stale() const { return stale_; }
  static const char* StaleAdvice();

  const TrainableList& list() const { return list_; }
  ListStatus list_status() const { return list_status_; }
  void* weights(int32_t i) const { return weights_[i]; }
  // Of the operator that reads trainable tensor i: its activations after Run.
  const int8_t* input_of(int32_t i) const;
  tflite::MicroInterpreter* interpreter() { return interpreter_; }
  const tflite::Model* model() const { return model_; }
  size_t input_bytes() const { return input_bytes_; }

 private:
  // Hands out the caller's registrations, with a Prepare that points at RAM first.
  class Resolver : public tflite::MicroOpResolver {
   public:
    explicit Resolver(const tflite::MicroOpResolver& inner) : inner_(inner) {}
    const TFLMRegistration* FindOp(tflite::BuiltinOperator op) const override;
    const TFLMRegistration* FindOp(const char* op) const override { return inner_.FindOp(op); }
    tflite::TfLiteBridgeBuiltinParseFunction GetOpDataParser(
        tflite::BuiltinOperator op) const override {
      return inner_.GetOpDataParser(op);
    }

   private:
    const tflite::MicroOpResolver& inner_;
    mutable TFLMRegistration hooked_[3];
  };

  template <int kSlot>
  static TfLiteStatus HookedPrepare(TfLiteContext* context, TfLiteNode* node);
  void Redirect(TfLiteContext* context, const TfLiteNode* node);

  void RestoreInitial();
  bool Prepare();
  TrainStatus Canary();
  bool Scramble(int32_t i, uint32_t round);
  uint32_t LogitsCrc();
  bool LogitsSurvive() const;

  const tflite::Model* model_;
  Resolver resolver_;
  uint8_t* arena_;
  size_t arena_bytes_;
  TrainableList list_;
  ListStatus list_status_;
  void* weights_[kMaxTrainable] = {};
  const TfLiteEvalTensor* inputs_[kMaxTrainable] = {};
  const TfLiteEvalTensor* logits_ = nullptr;
  tflite::MicroInterpreter* interpreter_ = nullptr;
  size_t input_bytes_ = 0;
  bool stale_ = false;
  bool changed_ = false;
  alignas(tflite::MicroInterpreter) uint8_t storage_[sizeof(tflite::MicroInterpreter)];
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TFLM_RAM_MODEL_H_
