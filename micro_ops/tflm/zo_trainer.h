// Zeroth-order training on a device: forward passes of an ordinary .tflite in a MicroInterpreter,
// trainable weights in RAM, everything else in flash. The bits are those of tflm_train.zo.ZoTrainer
// (docs/zo_arithmetic.md). QScheduler paper, Section III and Algorithm 1.
//
//   tflm_train::ZoTrainer trainer(model, resolver, arena, sizeof(arena), options);
//   if (trainer.Begin(memory, sizeof(memory)) != tflm_train::TrainStatus::kOk) ...
//   trainer.Step(samples.Source(), 32, nullptr);
#ifndef TFLM_TRAIN_MICRO_OPS_TFLM_ZO_TRAINER_H_
#define TFLM_TRAIN_MICRO_OPS_TFLM_ZO_TRAINER_H_

#include "micro_ops/tflm/ram_model.h"
#include "micro_ops/trainer/checkpoint_store.h"
#include "micro_ops/trainer/qscheduler.h"
#include "micro_ops/trainer/sample_source.h"
#include "micro_ops/trainer/zo_step.h"

namespace tflm_train {

struct ZoTrainerOptions {
  uint32_t seed = 0;
  int32_t q = 16;  // directions; ignored with a scheduler
  int32_t mu = 1;
  ZoEstimator estimator = ZoEstimator::kOneSided;
  uint32_t lr_q16 = 32768;    // learning rate in weight steps * 2^16
  bool rms = true;            // divide by the running root mean square of the differences
  uint32_t multiplier = 0;    // without rms: the host's raw rate, see zo_arithmetic.md
  int32_t beta_q8 = 0;        // momentum * 256; 0 keeps no buffer
  bool int16_shadow = false;  // 2 bytes more a weight instead of stochastic rounding
  uint32_t total_steps = 0;   // of a cosine decay; 0: none
  const QSchedulerConfig* scheduler = nullptr;
  const ZoRate* rates = nullptr;  // one per level of the scheduler; null: lr_q16 for each
  StalePolicy stale = StalePolicy::kRefuse;
};

class ZoTrainer {
 public:
  ZoTrainer(const tflite::Model* model, const tflite::MicroOpResolver& resolver, uint8_t* arena,
            size_t arena_bytes, const ZoTrainerOptions& options);

  // Bytes of RAM that Begin takes: weights, momentum and shadow when asked for, and 4 bytes a
  // direction (12 for kLeaveOneOut).
  size_t MemoryBytes() const;
  TrainStatus Begin(uint8_t* memory, size_t bytes);  // aligned to 16

  // One step on `count` samples. On a failure the weights are those before the step. `result` may
  // be null; its coefficients stay until the next step.
  TrainStatus Step(const SampleSource& samples, int32_t count, ZoResult* result);

  // Sum of losses (2^-16 bit) and right answers with the weights as they are; either may be null.
  TrainStatus Evaluate(const SampleSource& samples, int32_t count, int64_t* loss, int32_t* correct);

  // After a validation: q of the steps from now on.
  int32_t EndEpoch(int64_t metric);
  int32_t q() const;
  uint32_t step() const { return saved_.state.step; }

  // Pieces of memory for CheckpointSave and CheckpointLoad; after a load call StateLoaded().
  int32_t Parts(CheckpointPart* parts, int32_t capacity);
  void StateLoaded() { model_.WeightsChanged(); }

  RamModel& model() { return model_; }

 private:
  struct Saved {
    ZoState state;
    QSchedulerState scheduler;
  };
  static const int8_t* RunSample(void* context, int32_t i);
  static int32_t LabelOf(void* context, int32_t i);
  size_t MostDirections() const;
  TrainStatus CheckHeadroom() const;
  bool GoodOptions() const;

  RamModel model_;
  ZoTrainerOptions options_;
  ZoTensor tensors_[kMaxTrainable] = {};
  ZoRate rates_[kQMaxLevels] = {};
  ZoConfig config_ = {};
  Saved saved_ = {};
  int32_t loss_multiplier_ = 0;
  int32_t* coefficients_ = nullptr;
  const SampleSource* samples_ = nullptr;
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TFLM_ZO_TRAINER_H_
