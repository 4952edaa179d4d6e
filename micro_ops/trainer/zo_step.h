// One zeroth-order training step on the device: perturb, run, restore, combine, update. Calls the
// forward pass through a function, so that generated code and an interpreter use it alike. No heap.
// docs/zo_arithmetic.md defines every bit; tflm_train/zo/_trainer.py is the host's twin.
#ifndef TFLM_TRAIN_MICRO_OPS_TRAINER_ZO_STEP_H_
#define TFLM_TRAIN_MICRO_OPS_TRAINER_ZO_STEP_H_

#include <cstdint>

#include "micro_ops/core/zo_coefficients.h"

namespace tflm_train {

// A trainable tensor. Its place in the random streams is that of its position in the list.
struct ZoTensor {
  int8_t* weights;    // int8 weights, or nullptr for a bias
  int32_t* bias;      // int32 bias, or nullptr for weights
  int32_t* momentum;  // one word per element; nullptr with beta_q8 = 0
  int16_t* shadow;    // weights * 256 for the int16_shadow update; nullptr for stochastic rounding
  uint32_t size;
  int32_t unit;   // 1 for weights
  int32_t limit;  // 127 - mu for weights
};

// Rates that follow q, one entry per q the run can have.
struct ZoRate {
  int32_t q;
  uint32_t lr_q16;      // rms
  uint32_t multiplier;  // raw
};

struct ZoConfig {
  const ZoTensor* tensors;
  int32_t tensor_count;
  const ZoRate* rates;
  int32_t rate_count;
  uint32_t seed;
  int32_t mu;
  ZoEstimator estimator;
  bool rms;              // false: raw
  int32_t beta_q8;       // momentum * 256
  uint32_t total_steps;  // of the cosine decay; 0: constant
  int64_t* losses;       // room for the largest q; used by kLeaveOneOut alone
};

struct ZoState {
  uint64_t mean_square;
  uint32_t step;
};

// The batch. `run` computes sample number `sample` with the weights as they are now and returns its
// int8 logits, or nullptr when it cannot.
struct ZoBatch {
  const int8_t* (*run)(void* context, int32_t sample);
  void* context;
  int32_t count;
  int32_t classes;                                  // or outputs, for squared error
  const int32_t* labels;                            // cross-entropy with the labels in an array
  int32_t (*label)(void* context, int32_t sample);  // cross-entropy without one
  const int8_t* targets;                            // squared error, [count][classes]
  int32_t loss_multiplier;                          // cross-entropy
};

struct ZoResult {
  int64_t base;           // sum of losses before the step; of all directions without one
  int32_t* coefficients;  // the replay log's entry; room for the largest q
  uint32_t saturated;     // weights that ended at their limit
};

// Sets shadows to the weights and momenta to zero; call once, before the first step.
void ZoStart(const ZoConfig& config, ZoState* state);

// Sum of the losses of a batch with the weights as they are; false when a run failed.
bool ZoLoss(const ZoBatch& batch, int64_t* loss);

// One step with q directions. False, with the weights as before, when a run failed or q has no
// rate. The cosine decay applies to rms rates; `raw` multipliers follow the host only without it.
bool ZoStep(const ZoConfig& config, const ZoBatch& batch, int32_t q, ZoState* state,
            ZoResult* result);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TRAINER_ZO_STEP_H_
