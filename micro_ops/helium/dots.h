// Inner loops of the Cortex-M55 kernels: int8 dot products by MVE in tail-predicated loops, the
// mask of PRIOT as a vector predicate.
#ifndef TFLM_TRAIN_MICRO_OPS_HELIUM_DOTS_H_
#define TFLM_TRAIN_MICRO_OPS_HELIUM_DOTS_H_

#include <arm_mve.h>

#include <cstdint>

#include "micro_ops/core/niti_update.h"
#include "micro_ops/core/priot_scores.h"

namespace tflm_train {

// sums[k] += common . rows[k * pitch], k = 0 .. 3, over n values.
inline void Dot4(const int8_t* common, const int8_t* rows, int32_t pitch, int32_t n,
                 int32_t* sums) {
  const int8_t* r0 = rows;
  const int8_t* r1 = rows + pitch;
  const int8_t* r2 = rows + 2 * pitch;
  const int8_t* r3 = rows + 3 * pitch;
  int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
  asm volatile(
      "  wlstp.8 lr, %[n], 1f\n"
      "2:\n"
      "  vldrb.8 q0, [%[common]], #16\n"
      "  vldrb.8 q1, [%[r0]], #16\n"
      "  vmladava.s8 %[s0], q0, q1\n"
      "  vldrb.8 q2, [%[r1]], #16\n"
      "  vmladava.s8 %[s1], q0, q2\n"
      "  vldrb.8 q3, [%[r2]], #16\n"
      "  vmladava.s8 %[s2], q0, q3\n"
      "  vldrb.8 q4, [%[r3]], #16\n"
      "  vmladava.s8 %[s3], q0, q4\n"
      "  letp lr, 2b\n"
      "1:\n"
      : [common] "+r"(common), [r0] "+r"(r0), [r1] "+r"(r1), [r2] "+r"(r2), [r3] "+r"(r3),
        [s0] "+Te"(s0), [s1] "+Te"(s1), [s2] "+Te"(s2), [s3] "+Te"(s3)
      : [n] "r"(n)
      : "q0", "q1", "q2", "q3", "q4", "lr", "memory");
  sums[0] = s0;
  sums[1] = s1;
  sums[2] = s2;
  sums[3] = s3;
}

inline int32_t Dot1(const int8_t* a, const int8_t* b, int32_t n) {
  int32_t sum = 0;
  asm volatile(
      "  wlstp.8 lr, %[n], 1f\n"
      "2:\n"
      "  vldrb.8 q0, [%[a]], #16\n"
      "  vldrb.8 q1, [%[b]], #16\n"
      "  vmladava.s8 %[sum], q0, q1\n"
      "  letp lr, 2b\n"
      "1:\n"
      : [a] "+r"(a), [b] "+r"(b), [sum] "+Te"(sum)
      : [n] "r"(n)
      : "q0", "q1", "lr", "memory");
  return sum;
}

// The same with the edges of w whose score is below the threshold left out, for two rows at once.
inline void MaskedDot2(const int8_t* x, const int8_t* w, const int8_t* scores, int32_t threshold,
                       int32_t pitch, int32_t n, int32_t* sums) {
  const int8_t* w1 = w + pitch;
  const int8_t* scores1 = scores + pitch;
  int32_t s0 = 0, s1 = 0;
  asm volatile(
      "  wlstp.8 lr, %[n], 1f\n"
      "2:\n"
      "  vldrb.8 q0, [%[x]], #16\n"
      "  vldrb.8 q1, [%[w0]], #16\n"
      "  vldrb.8 q2, [%[m0]], #16\n"
      "  vpt.s8 ge, q2, %[threshold]\n"
      "  vmladavat.s8 %[s0], q0, q1\n"
      "  vldrb.8 q3, [%[w1]], #16\n"
      "  vldrb.8 q4, [%[m1]], #16\n"
      "  vpt.s8 ge, q4, %[threshold]\n"
      "  vmladavat.s8 %[s1], q0, q3\n"
      "  letp lr, 2b\n"
      "1:\n"
      : [x] "+r"(x), [w0] "+r"(w), [m0] "+r"(scores), [w1] "+r"(w1), [m1] "+r"(scores1),
        [s0] "+Te"(s0), [s1] "+Te"(s1)
      : [n] "r"(n), [threshold] "r"(threshold)
      : "q0", "q1", "q2", "q3", "q4", "lr", "memory");
  sums[0] = s0;
  sums[1] = s1;
}

// masked[i] = scores[i] < threshold ? 0 : weights[i].
inline void MaskVector(const int8_t* weights, const int8_t* scores, int32_t threshold, int32_t n,
                       int8_t* masked) {
  asm volatile(
      "  vmov.i8 q3, #0\n"
      "  wlstp.8 lr, %[n], 1f\n"
      "2:\n"
      "  vldrb.8 q0, [%[w]], #16\n"
      "  vldrb.8 q1, [%[s]], #16\n"
      "  vcmp.s8 ge, q1, %[threshold]\n"
      "  vpsel q2, q0, q3\n"
      "  vstrb.8 q2, [%[to]], #16\n"
      "  letp lr, 2b\n"
      "1:\n"
      : [w] "+r"(weights), [s] "+r"(scores), [to] "+r"(masked)
      : [n] "r"(n), [threshold] "r"(threshold)
      : "q0", "q1", "q2", "q3", "lr", "memory");
}

inline void CopyVector(const int8_t* from, int32_t n, int8_t* to) {
  asm volatile(
      "  wlstp.8 lr, %[n], 1f\n"
      "2:\n"
      "  vldrb.8 q0, [%[from]], #16\n"
      "  vstrb.8 q0, [%[to]], #16\n"
      "  letp lr, 2b\n"
      "1:\n"
      : [from] "+r"(from), [to] "+r"(to)
      : [n] "r"(n)
      : "q0", "lr", "memory");
}

inline void ZeroVector(int32_t n, int8_t* to) {
  asm volatile(
      "  vmov.i8 q0, #0\n"
      "  wlstp.8 lr, %[n], 1f\n"
      "2:\n"
      "  vstrb.8 q0, [%[to]], #16\n"
      "  letp lr, 2b\n"
      "1:\n"
      : [to] "+r"(to)
      : [n] "r"(n)
      : "q0", "lr", "memory");
}

// Rounding as TFLM does it, on four values; the caller has checked that shift >= 2.
inline int32x4_t RoundTflm(int32x4_t values, int32_t shift) {
  int32x4_t half = vrshrq_n_s32(values, 1);
  half = vaddq_s32(half, vshrq_n_s32(half, 31));
  return vrshlq_n_s32(half, 1 - shift);
}

inline bool FastRounding(Rounding rounding, int32_t shift) {
  return rounding == Rounding::kTflm && shift >= 2;
}

inline int32x4_t ClampVector(int32x4_t values, int32_t low, int32_t high) {
  return vminq_s32(vmaxq_s32(values, vdupq_n_s32(low)), vdupq_n_s32(high));
}

// Four accumulators to int8 at to[0], to[pitch], ..; `index` of the first for stochastic rounding.
inline void Requantize4(const Requantize& params, const int32_t* sums, int32_t index, int32_t pitch,
                        int8_t* to) {
  if (FastRounding(params.rounding, params.shift)) {
    const int32x4_t values =
        ClampVector(RoundTflm(vldrwq_s32(sums), params.shift), params.low, params.high);
    const uint32x4_t offsets = vmulq_n_u32(vidupq_n_u32(0, 1), static_cast<uint32_t>(pitch));
    vstrbq_scatter_offset_s32(to, offsets, values);
    return;
  }
  for (int32_t k = 0; k < 4; ++k) {
    to[k * pitch] = RequantizeValue(params, sums[k], index + k * pitch);
  }
}

// The steps of `count` (1 .. 4) updates; 0 in lanes behind them.
inline int32x4_t UpdateSteps(const UpdateParams& params, int32x4_t values, int32_t first_edge) {
  if (FastRounding(params.rounding, params.shift)) {
    return ClampVector(RoundTflm(values, params.shift), -127, 127);
  }
  int32_t lanes[4];
  vstrwq_s32(lanes, values);
  for (int32_t k = 0; k < 4; ++k) lanes[k] = UpdateStep(params, lanes[k], first_edge + k);
  return vldrwq_s32(lanes);
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HELIUM_DOTS_H_
