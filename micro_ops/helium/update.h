// Updates four edges at a time; most steps are zero and leave the edge as it is.
#ifndef TFLM_TRAIN_MICRO_OPS_HELIUM_UPDATE_H_
#define TFLM_TRAIN_MICRO_OPS_HELIUM_UPDATE_H_

#include "micro_ops/helium/dots.h"

namespace tflm_train {

// sums[i] += factor * x[i].
inline void AddScaled(const int8_t* x, int32_t factor, int32_t n, int32_t* sums) {
  asm volatile(
      "  wlstp.32 lr, %[n], 1f\n"
      "2:\n"
      "  vldrb.s32 q0, [%[x]], #4\n"
      "  vldrw.32 q1, [%[sums]]\n"
      "  vmla.s32 q1, q0, %[factor]\n"
      "  vstrw.32 q1, [%[sums]], #16\n"
      "  letp lr, 2b\n"
      "1:\n"
      : [x] "+r"(x), [sums] "+r"(sums)
      : [n] "r"(n), [factor] "r"(factor)
      : "q0", "q1", "lr", "memory");
}

// errors[i] = 0 where output[i] is not above 0.
inline void ReluMask(const int8_t* output, int32_t n, int8_t* errors) {
  for (int32_t i = 0; i < n; i += 16) {
    const mve_pred16_t inside = vctp8q(static_cast<uint32_t>(n - i));
    const mve_pred16_t off = vcmpleq_m_n_s8(vldrbq_z_s8(output + i, inside), 0, inside);
    vstrbq_p_s8(errors + i, vdupq_n_s8(0), off);
  }
}

// values(i, inside) gives the products of edges i .. i + 3 of a row.
template <class Values>
inline void UpdateScores(const ScoreView& view, int32_t first_edge, int32_t n,
                         const UpdateParams& params, const Values& values, ScoreCounts* counts) {
  for (int32_t i = 0; i < n; i += 4) {
    const mve_pred16_t inside = vctp32q(static_cast<uint32_t>(n - i));
    const int32x4_t steps = UpdateSteps(params, values(i, inside), first_edge + i);
    if (!vcmpneq_m_n_s32(steps, 0, inside)) continue;
    int32_t lanes[4];
    vstrwq_s32(lanes, steps);
    for (int32_t k = 0; k < 4 && i + k < n; ++k) {
      PriotApplyStep(view, first_edge + i + k, lanes[k], counts);
    }
  }
}

template <class Values>
inline void UpdateWeights(int32_t first_edge, int32_t n, const UpdateParams& params,
                          const Values& values, int8_t* weights) {
  for (int32_t i = 0; i < n; i += 4) {
    const mve_pred16_t inside = vctp32q(static_cast<uint32_t>(n - i));
    const int32x4_t steps = UpdateSteps(params, values(i, inside), first_edge + i);
    if (!vcmpneq_m_n_s32(steps, 0, inside)) continue;
    int8_t* w = weights + first_edge + i;
    const int32x4_t moved = vsubq_s32(vldrbq_z_s32(w, inside), steps);
    vstrbq_p_s32(w, ClampVector(moved, -127, 127), inside);
  }
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HELIUM_UPDATE_H_
