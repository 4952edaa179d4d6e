// Trains the last dense layer of an ordinary .tflite by its exact gradient, sample by sample: one
// Invoke() a sample, one byte of RAM a weight. For a model converted with --trainable last.
#ifndef TFLM_TRAIN_MICRO_OPS_TFLM_EXACT_HEAD_TRAINER_H_
#define TFLM_TRAIN_MICRO_OPS_TFLM_EXACT_HEAD_TRAINER_H_

#include "micro_ops/tflm/ram_model.h"
#include "micro_ops/trainer/checkpoint_store.h"
#include "micro_ops/trainer/exact_head.h"
#include "micro_ops/trainer/sample_source.h"

namespace tflm_train {

struct ExactHeadOptions {
  uint32_t seed = 0;
  uint32_t rate_q16 = 65536;  // see ExactHead
  StalePolicy stale = StalePolicy::kRefuse;
};

class ExactHeadTrainer {
 public:
  ExactHeadTrainer(const tflite::Model* model, const tflite::MicroOpResolver& resolver,
                   uint8_t* arena, size_t arena_bytes, const ExactHeadOptions& options);

  size_t MemoryBytes() const;                        // weights and one word a class
  TrainStatus Begin(uint8_t* memory, size_t bytes);  // aligned to 16

  // One pass over `count` samples. `correct` (may be null): right answers before each update.
  TrainStatus Train(const SampleSource& samples, int32_t count, int32_t* correct);
  uint32_t step() const { return step_; }

  // Step and weights, for CheckpointSave and CheckpointLoad; after a load call StateLoaded().
  int32_t Parts(CheckpointPart* parts, int32_t capacity);
  void StateLoaded() { model_.WeightsChanged(); }

  RamModel& model() { return model_; }

 private:
  bool FindHead();

  RamModel model_;
  ExactHeadOptions options_;
  ExactHead head_ = {};
  int32_t* error_ = nullptr;
  uint32_t step_ = 0;
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TFLM_EXACT_HEAD_TRAINER_H_
