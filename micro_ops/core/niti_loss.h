// Error of the last layer from int8 logits by an integer cross-entropy. docs/priot_arithmetic.md,
// "Integer cross-entropy".
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_NITI_LOSS_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_NITI_LOSS_H_

#include <cstdint>

namespace tflm_train {

constexpr int32_t kMaxClasses = 4095;

// logits: int8 with real value q * 2^exponent. error: the int8 error of the logits.
// `scratch` holds `classes` words. Returns false, with an all-zero error, when the error is zero
// (a confidently right sample): nothing is left to propagate.
bool NitiCrossEntropyError(const int8_t* logits, int32_t classes, int32_t exponent, int32_t label,
                           int32_t* scratch, int8_t* error);

// Index of the largest logit, the first of equal ones.
int32_t NitiArgMax(const int8_t* logits, int32_t classes);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_NITI_LOSS_H_
