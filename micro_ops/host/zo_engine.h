// Zeroth-order steps on an engine: losses of q perturbations and whole training runs without a
// return to Python. docs/zo_arithmetic.md defines every bit.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_ZO_ENGINE_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_ZO_ENGINE_H_

#include <memory>
#include <string>
#include <vector>

#include "micro_ops/core/zo_coefficients.h"
#include "micro_ops/core/zo_update.h"
#include "micro_ops/host/engine.h"

namespace tflm_train {

struct ZoTrainable {
  int32_t tensor;
  int32_t unit;
  int32_t limit;
};

enum class ZoLoss { kCrossEntropy, kSquaredError };

// What stays the same from step to step.
struct ZoProblem {
  int32_t first_op;
  int32_t logits;  // tensor the loss is computed from
  ZoLoss loss;
  int32_t mult;  // of the cross-entropy
  std::vector<ZoTrainable> trainable;
  uint32_t seed;
  int32_t mu;
  ZoEstimator estimator;
};

// A batch: features and targets of the same samples.
struct ZoBatch {
  std::vector<Feed> feeds;
  const int32_t* labels;  // cross-entropy: one a sample
  const int8_t* targets;  // squared error: a whole output a sample
  int32_t samples;
};

// Losses of one step; base is 0 unless one-sided, minus empty unless two-sided.
struct ZoLosses {
  int64_t base = 0;
  std::vector<int64_t> plus, minus;
};

// State of one trainable tensor, owned by the caller.
struct ZoTensorState {
  int32_t* momentum = nullptr;
  int16_t* int16_shadow = nullptr;
  float* float_shadow = nullptr;
};

struct ZoSchedule {
  int32_t q;
  int32_t batch_size;
  bool rms;              // else raw
  const uint32_t* rate;  // per step: lr_q16 for rms, the multiplier for raw
  int32_t beta_q8;
};

// What a run of steps leaves behind, sized by Train.
struct ZoTrace {
  std::vector<int32_t> coefficients, differences;  // [steps][q]
  std::vector<int64_t> losses;  // [steps]: base when one-sided, else the sum over directions
  uint64_t mean_square = 0;
  uint32_t saturated = 0;    // elements at their limit after the last step
  uint64_t evaluations = 0;  // forward passes of one sample through the suffix
};

// Cross-entropy of many samples under one multiplier: the 256 terms are tabulated.
class ZoLossTable {
 public:
  ZoLossTable(ZoLoss loss, int32_t mult, int32_t outputs);
  // Sum over the batch, from `outputs` int8 values a sample.
  int64_t Sum(const int8_t* logits, const ZoBatch& batch) const;

 private:
  ZoLoss loss_;
  int32_t mult_, outputs_;
  std::vector<uint32_t> terms_;  // by distance from the highest logit
};

class ZoDense;

class ZoEngine {
 public:
  // Checks the problem against the model. Throws std::invalid_argument.
  ZoEngine(Engine* engine, const ZoProblem& problem);
  ~ZoEngine();

  // Checks labels and sizes once, before anything runs.
  void CheckBatch(const ZoBatch& batch) const;

  // Losses at the weights and at q perturbations of them; the weights end as they began. The
  // caller holds the engine's lock, here and below.
  void Losses(const ZoBatch& batch, uint32_t step, int32_t q, ZoLosses* losses);

  // Steps first_step, first_step + 1, ... over `count` samples of `data` in the order of
  // `indices`, batch by batch; the last batch may be smaller.
  void Train(const ZoBatch& data, const int32_t* indices, int64_t count, uint32_t first_step,
             const ZoSchedule& schedule, const std::vector<ZoTensorState>& states, ZoTrace* trace);

 private:
  struct Slot;

  void LossesUnchecked(const ZoBatch& batch, uint32_t step, int32_t q, ZoLosses* losses);
  void FindDense();
  int64_t Evaluate(const ZoBatch& batch);
  void Perturb(uint32_t step, int32_t k, int32_t delta);
  void CheckDirections(int32_t q) const;
  void CheckRoom() const;
  void Update(const int32_t* coefficients, int32_t q, uint32_t step, int32_t beta_q8,
              const std::vector<ZoTensorState>& states, ZoTrace* trace);

  Engine* engine_;
  ZoProblem problem_;
  std::vector<Slot> slots_;
  std::vector<Kernel*> readers_;  // of any trainable tensor
  int32_t outputs_;               // values of one sample's logits
  ZoLossTable table_;
  std::vector<int8_t> logits_;
  std::unique_ptr<ZoDense> dense_;  // set when one dense layer is all that trains
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_ZO_ENGINE_H_
