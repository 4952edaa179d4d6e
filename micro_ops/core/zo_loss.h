// Losses from int8 outputs without a float: the same bits on every machine.
// docs/zo_arithmetic.md, "Loss of one sample".
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_ZO_LOSS_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_ZO_LOSS_H_

#include <cstdint>

namespace tflm_train {

constexpr int32_t kZoMaxLossMult = (1 << 23) - 1;
constexpr int32_t kZoMaxClasses = 4095;

// The two functions of the cross-entropy: 2^-(t / 65536) in units of 2^-20, 0 below one unit; and
// log2(s / 2^20) * 65536 for s >= 2^20.
uint32_t ZoExp2Negative(uint32_t t);
int32_t ZoLog2(uint32_t s);

// Cross-entropy of one sample in units of 2^-16 bit.
// mult: logits scale * log2(e) * 2^16, 1 .. kZoMaxLossMult; classes: 1 .. kZoMaxClasses;
// label: 0 .. classes - 1. Trusted: the callers check once, not per sample.
int64_t ZoCrossEntropy(const int8_t* logits, int32_t classes, int32_t label, int32_t mult);

// Sum of squared differences in squared output steps.
int64_t ZoSquaredError(const int8_t* output, const int8_t* target, int32_t size);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_ZO_LOSS_H_
