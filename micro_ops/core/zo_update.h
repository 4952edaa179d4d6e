// The weight update of a step, made again from its coefficients alone; no gradient is stored.
// docs/zo_arithmetic.md, "Update".
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_ZO_UPDATE_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_ZO_UPDATE_H_

#include <cstdint>

#include "micro_ops/core/zo_coefficients.h"

namespace tflm_train {

// One tensor's share of a step.
struct ZoUpdateParams {
  uint32_t seed;
  uint32_t step;
  const int32_t* coefficients;  // a_k, q of them
  int32_t q;                    // 1 .. kZoMaxQ
  int32_t beta_q8;              // momentum * 256, 0 .. 255
  int32_t unit;                 // 1 for weights
  int32_t limit;                // largest magnitude kept
  uint32_t first_sign_block;
  uint32_t first_rounding_block;
};

// momentum: int32 per element, may be nullptr when beta_q8 is 0 (then nothing is remembered).
// Return the number of elements that ended at +-limit.
uint32_t ZoUpdateInt8(const ZoUpdateParams& params, int8_t* w, int32_t* momentum, uint32_t size);
uint32_t ZoUpdateInt32(const ZoUpdateParams& params, int32_t* w, int32_t* momentum, uint32_t size);
// shadow: weights * 256 as int16, kept by the caller.
uint32_t ZoUpdateInt16Shadow(const ZoUpdateParams& params, int8_t* w, int16_t* shadow,
                             int32_t* momentum, uint32_t size);
// shadow: weights as float32; for machines with a float unit.
uint32_t ZoUpdateFloatShadow(const ZoUpdateParams& params, int8_t* w, float* shadow,
                             int32_t* momentum, uint32_t size);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_ZO_UPDATE_H_
