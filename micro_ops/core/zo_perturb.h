// Rademacher perturbation of weights in place. docs/zo_arithmetic.md, "Trainable tensors".
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_ZO_PERTURB_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_ZO_PERTURB_H_

#include <cstdint>

namespace tflm_train {

// w[j] += delta * z_j with z_j = +-1 from `key`; the tensor's signs start at word `first_block`.
// Calling it again with -delta restores w exactly as long as no |w[j]| + |delta| leaves the type's
// range, which the trainable limit guarantees (|w| <= 127 - |delta|).
void ZoPerturbInt8(int8_t* w, uint32_t size, uint32_t key, uint32_t first_block, int32_t delta);
void ZoPerturbInt32(int32_t* w, uint32_t size, uint32_t key, uint32_t first_block, int32_t delta);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_ZO_PERTURB_H_
