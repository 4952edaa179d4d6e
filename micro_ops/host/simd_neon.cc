// NEON kernels of AArch64: the matrix product and the depthwise convolution by widening
// multiply-adds; what the compiler vectorises well by itself stays plain C++.
#include "micro_ops/host/simd_levels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include <algorithm>
#include <cstring>

#include "micro_ops/core/counter_rng.h"
#include "micro_ops/core/zo_perturb.h"

namespace tflm_train {
namespace {

constexpr int32_t kRows = 4;  // rows of one register tile

struct Scale {
  int32x4_t multiplier, left, right;  // right is negative: a shift to the right
};

Scale LoadScale(const PackedScales& s, int32_t channel) {
  return {vld1q_s32(s.multiplier.data() + channel), vld1q_s32(s.left_shift.data() + channel),
          vnegq_s32(vld1q_s32(s.right_shift.data() + channel))};
}

int32x4_t Apply(int32x4_t x, const Scale& s) {
  const int32x4_t high = vqrdmulhq_s32(vshlq_s32(x, s.left), s.multiplier);
  // The rounding shift rounds ties up; one less for negative values makes it away from zero.
  const int32x4_t fixup = vshrq_n_s32(vandq_s32(high, s.right), 31);
  return vrshlq_s32(vqaddq_s32(high, fixup), s.right);
}

// Four vectors of sums to 16 bytes.
int8x16_t Requantize16(const int32x4_t* sums, const Scale* scales, const PackedScales& s) {
  const int32x4_t offset = vdupq_n_s32(s.output_offset);
  int32x4_t v[4];
  for (int i = 0; i < 4; ++i) v[i] = vaddq_s32(Apply(sums[i], scales[i]), offset);
  const int16x8_t low = vcombine_s16(vqmovn_s32(v[0]), vqmovn_s32(v[1]));
  const int16x8_t high = vcombine_s16(vqmovn_s32(v[2]), vqmovn_s32(v[3]));
  const int8x16_t bytes = vcombine_s8(vqmovn_s16(low), vqmovn_s16(high));
  return vminq_s8(vmaxq_s8(bytes, vdupq_n_s8(static_cast<int8_t>(s.activation_min))),
                  vdupq_n_s8(static_cast<int8_t>(s.activation_max)));
}

void StoreBytes(int8_t* out, int8x16_t v, int32_t count) {
  if (count == kPanel) {
    vst1q_s8(out, v);
    return;
  }
  int8_t bytes[kPanel];
  vst1q_s8(bytes, v);
  std::memcpy(out, bytes, static_cast<size_t>(count));
}

int8x16_t LoadBytes(const int8_t* in, int32_t count) {
  if (count == kPanel) return vld1q_s8(in);
  int8_t bytes[kPanel] = {0};
  std::memcpy(bytes, in, static_cast<size_t>(count));
  return vld1q_s8(bytes);
}

void Convert(const int8_t* x, int32_t n, void* out) {
  int16_t* o = static_cast<int16_t*>(out);
  for (int32_t i = 0; i < n; ++i) o[i] = x[i];
}

template <int kCount>
void Tile(const int16_t* rows, int32_t stride, const int8_t* panel, int32_t pairs,
          const int32_t* bias, int32x4_t (*acc)[4]) {
  for (int r = 0; r < kCount; ++r) {
    for (int v = 0; v < 4; ++v) acc[r][v] = vld1q_s32(bias + 4 * v);
  }
  for (int32_t p = 0; p < pairs; ++p, panel += 2 * kPanel, rows += 2) {
    const int8x16x2_t w = vld2q_s8(panel);
    for (int half = 0; half < 2; ++half) {
      const int16x8_t low = vmovl_s8(vget_low_s8(w.val[half]));
      const int16x8_t high = vmovl_s8(vget_high_s8(w.val[half]));
      for (int r = 0; r < kCount; ++r) {
        const int16_t x = rows[r * stride + half];
        acc[r][0] = vmlal_n_s16(acc[r][0], vget_low_s16(low), x);
        acc[r][1] = vmlal_n_s16(acc[r][1], vget_high_s16(low), x);
        acc[r][2] = vmlal_n_s16(acc[r][2], vget_low_s16(high), x);
        acc[r][3] = vmlal_n_s16(acc[r][3], vget_high_s16(high), x);
      }
    }
  }
}

void AnyTile(int32_t count, const int16_t* rows, int32_t stride, const int8_t* panel, int32_t pairs,
             const int32_t* bias, int32x4_t (*acc)[4]) {
  switch (count) {
    case 1:
      return Tile<1>(rows, stride, panel, pairs, bias, acc);
    case 2:
      return Tile<2>(rows, stride, panel, pairs, bias, acc);
    case 3:
      return Tile<3>(rows, stride, panel, pairs, bias, acc);
    default:
      return Tile<4>(rows, stride, panel, pairs, bias, acc);
  }
}

// Calls store(row, column, columns, sums of that row) for each row and panel.
template <typename Store>
void ForEachPanel(const PackedGemm& p, const void* rows_in, int32_t rows, Store store) {
  const int16_t* a = static_cast<const int16_t*>(rows_in);
  const int32_t stride = p.depth_padded;
  for (int32_t c = 0; c < p.columns; c += kPanel) {
    const int8_t* panel = p.weights.data() + static_cast<size_t>(c) * stride;
    for (int32_t r = 0; r < rows; r += kRows) {
      const int32_t count = std::min(kRows, rows - r);
      int32x4_t acc[kRows][4];
      AnyTile(count, a + static_cast<size_t>(r) * stride, stride, panel, stride / 2,
              p.scales.bias.data() + c, acc);
      for (int32_t i = 0; i < count; ++i) {
        store(r + i, c, std::min(kPanel, p.columns - c), acc[i]);
      }
    }
  }
}

void Gemm(const PackedGemm& p, const void* rows_in, int32_t rows, int8_t* out) {
  ForEachPanel(p, rows_in, rows,
               [&](int32_t row, int32_t c, int32_t columns, const int32x4_t* sums) {
                 const Scale scales[4] = {LoadScale(p.scales, c), LoadScale(p.scales, c + 4),
                                          LoadScale(p.scales, c + 8), LoadScale(p.scales, c + 12)};
                 StoreBytes(out + static_cast<size_t>(row) * p.columns + c,
                            Requantize16(sums, scales, p.scales), columns);
               });
}

void GemmSums(const PackedGemm& p, const void* rows_in, int32_t rows, int32_t pitch, int32_t* out) {
  ForEachPanel(p, rows_in, rows,
               [&](int32_t row, int32_t c, int32_t columns, const int32x4_t* sums) {
                 int32_t values[kPanel];
                 for (int v = 0; v < 4; ++v) vst1q_s32(values + 4 * v, sums[v]);
                 std::memcpy(out + static_cast<size_t>(row) * pitch + c, values,
                             sizeof(int32_t) * static_cast<size_t>(columns));
               });
}

void Depthwise(const PackedDepthwise& p, const int8_t* const* taps, int32_t pixels, int32_t step,
               int8_t* out) {
  const int32_t taps_padded = RoundUp(p.taps, 2);
  for (int32_t c = 0; c < p.channels; c += kPanel) {
    const int32_t columns = std::min(kPanel, p.channels - c);
    const int16_t* weights = p.weights.data() + static_cast<size_t>(c) * taps_padded;
    const Scale scales[4] = {LoadScale(p.scales, c), LoadScale(p.scales, c + 4),
                             LoadScale(p.scales, c + 8), LoadScale(p.scales, c + 12)};
    for (int32_t pixel = 0; pixel < pixels; ++pixel) {
      int32x4_t acc[4];
      for (int v = 0; v < 4; ++v) acc[v] = vld1q_s32(p.scales.bias.data() + c + 4 * v);
      for (int32_t t = 0; t < p.taps; ++t) {
        const int8_t* at = taps[t] + static_cast<ptrdiff_t>(pixel) * step + c;
        const int8x16_t x = LoadBytes(at, columns);
        const int16x8_t x0 = vmovl_s8(vget_low_s8(x)), x1 = vmovl_s8(vget_high_s8(x));
        const int16_t* w = weights + t / 2 * 2 * kPanel;
        const int16x8_t w0 = vld2q_s16(w).val[t % 2], w1 = vld2q_s16(w + 16).val[t % 2];
        acc[0] = vmlal_s16(acc[0], vget_low_s16(x0), vget_low_s16(w0));
        acc[1] = vmlal_s16(acc[1], vget_high_s16(x0), vget_high_s16(w0));
        acc[2] = vmlal_s16(acc[2], vget_low_s16(x1), vget_low_s16(w1));
        acc[3] = vmlal_s16(acc[3], vget_high_s16(x1), vget_high_s16(w1));
      }
      StoreBytes(out + static_cast<size_t>(pixel) * p.channels + c,
                 Requantize16(acc, scales, p.scales), columns);
    }
  }
}

void Add(const AddParams& params, int32_t n, const int8_t* a, const int8_t* b, int8_t* out) {
  const BroadcastShape shape = {1, {n}, {1}, {1}};
  AddInt8(params, shape, a, b, out);
}

void SumRows(const int8_t* x, int32_t rows, int32_t pitch, int32_t channels, int32_t* sums) {
  std::fill_n(sums, channels, 0);
  for (int32_t r = 0; r < rows; ++r, x += pitch) {
    for (int32_t c = 0; c < channels; ++c) sums[c] += x[c];
  }
}

void MaxRow(const int8_t* x, int32_t n, int8_t* highest) {
  for (int32_t i = 0; i < n; ++i) highest[i] = std::max(highest[i], x[i]);
}

void ExpandSigns(uint32_t key, uint32_t first_block, uint32_t size, int8_t* z) {
  for (uint32_t j = 0; j < size; j += 32, ++first_block) {
    const uint32_t word = RngWord(key, first_block);
    const uint32_t count = std::min(32u, size - j);
    for (uint32_t i = 0; i < count; ++i) z[j + i] = (word >> i) & 1u ? 1 : -1;
  }
}

void SignSums(const uint8_t* x, int32_t samples, int32_t depth, int32_t depth_padded,
              const int8_t* z, int32_t columns, int32_t* out) {
  for (int32_t s = 0; s < samples; ++s, x += depth_padded) {
    for (int32_t c = 0; c < columns; ++c) {
      const int8_t* signs = z + static_cast<size_t>(c) * depth;
      int32_t sum = 0;
      for (int32_t i = 0; i < depth; ++i) sum += signs[i] * x[i];
      *out++ = sum;
    }
  }
}

void Requantize(const PackedScales& s, int32_t columns, int32_t rows, const int32_t* sums,
                int8_t* out) {
  const int32_t pitch = RoundUp(columns, kPanel);
  for (int32_t r = 0; r < rows; ++r, sums += pitch, out += columns) {
    for (int32_t c = 0; c < columns; c += kPanel) {
      int32x4_t v[4];
      Scale scales[4];
      for (int i = 0; i < 4; ++i) {
        v[i] = vld1q_s32(sums + c + 4 * i);
        scales[i] = LoadScale(s, c + 4 * i);
      }
      StoreBytes(out + c, Requantize16(v, scales, s), std::min(kPanel, columns - c));
    }
  }
}

const SimdKernels kKernels = {
    "neon",       2,    2,        0,       &Convert,     &Gemm,     &GemmSums,   false,
    &Depthwise,   &Add, &SumRows, &MaxRow, &ExpandSigns, &SignSums, &Requantize, &ZoPerturbInt8,
    &ZoUpdateInt8};

}  // namespace

const SimdKernels* NeonKernels() { return &kKernels; }

}  // namespace tflm_train

#else

namespace tflm_train {
const SimdKernels* NeonKernels() { return nullptr; }
}  // namespace tflm_train

#endif  // defined(__aarch64__)
