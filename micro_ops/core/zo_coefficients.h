// From the losses of q directions to the scalars that multiply their signs: all that a step needs
// to be repeated. docs/zo_arithmetic.md, "Difference per direction" and "Coefficients".
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_ZO_COEFFICIENTS_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_ZO_COEFFICIENTS_H_

#include <cstdint>

namespace tflm_train {

constexpr int32_t kZoMaxQ = 128;

enum class ZoEstimator : int32_t { kOneSided = 0, kLeaveOneOut = 1, kTwoSided = 2 };

// d[k] from the losses, saturated to +-2^30. plus: q losses at w + mu z_k; minus: q losses at
// w - mu z_k for kTwoSided, else unused; base: the loss at w for kOneSided, else unused.
// q: 1 .. kZoMaxQ, at least 2 for kLeaveOneOut.
void ZoDifferences(ZoEstimator estimator, int64_t base, const int64_t* plus, const int64_t* minus,
                   int32_t q, int32_t* d);

// Divides by the running root mean square of d; *mean_square is the state (0 at the start).
// lr_q16: learning rate in weight steps * 2^16, at most 2^24. d and a may be the same array.
void ZoCoefficientsRms(const int32_t* d, int32_t q, uint32_t lr_q16, uint64_t* mean_square,
                       int32_t* a);

// a[k] = d[k] * multiplier / 2^28, towards zero, saturated to +-2^23.
void ZoCoefficientsRaw(const int32_t* d, int32_t q, uint32_t multiplier, int32_t* a);

// Half a cosine from lr_q16 at step 0 to 0 at step `total` and after. total >= 1.
uint32_t ZoCosineDecay(uint32_t lr_q16, uint32_t step, uint32_t total);

// Largest integer whose square is at most v.
uint32_t ZoSquareRoot(uint64_t v);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_ZO_COEFFICIENTS_H_
