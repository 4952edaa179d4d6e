// AVX2 matrix product: pairs of int16 products summed in 32 bits (no saturation can occur), output
// channels in the lanes.
#include "micro_ops/host/simd_avx2.h"

#if defined(__x86_64__)

#include <algorithm>

namespace tflm_train {
namespace avx2 {
namespace {

constexpr int32_t kRows = 6;  // rows of one register tile

// sums[r][16] = bias + products of rows r with one panel of weights, of which only the first
// 8 * kVectors columns are computed.
template <int kCount, int kVectors>
TFLM_TRAIN_AVX2_INLINE void Tile(const int16_t* rows, int32_t stride, const int8_t* panel,
                                 int32_t pairs, const int32_t* bias, int32_t* sums) {
  __m256i acc[kCount][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) acc[r][v] = Load(bias + 8 * v);
  }
  for (int32_t p = 0; p < pairs; ++p, panel += 2 * kPanel, rows += 2) {
    __m256i w[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) w[v] = _mm256_cvtepi8_epi16(Load16(panel + 16 * v));
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      int32_t pair;
      std::memcpy(&pair, rows + r * stride, sizeof(pair));
      const __m256i x = _mm256_set1_epi32(pair);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        acc[r][v] = _mm256_add_epi32(acc[r][v], _mm256_madd_epi16(x, w[v]));
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) Store(sums + r * kPanel + 8 * v, acc[r][v]);
  }
}

template <int kVectors>
TFLM_TRAIN_AVX2 void AnyTile(int32_t count, const int16_t* rows, int32_t stride,
                             const int8_t* panel, int32_t pairs, const int32_t* bias,
                             int32_t* sums) {
  switch (count) {
    case 1:
      return Tile<1, kVectors>(rows, stride, panel, pairs, bias, sums);
    case 2:
      return Tile<2, kVectors>(rows, stride, panel, pairs, bias, sums);
    case 3:
      return Tile<3, kVectors>(rows, stride, panel, pairs, bias, sums);
    case 4:
      return Tile<4, kVectors>(rows, stride, panel, pairs, bias, sums);
    case 5:
      return Tile<5, kVectors>(rows, stride, panel, pairs, bias, sums);
    default:
      return Tile<6, kVectors>(rows, stride, panel, pairs, bias, sums);
  }
}

template <bool kLeft, bool kFull, int kVectors>
TFLM_TRAIN_AVX2 void GemmPanel(const PackedGemm& p, int32_t channel, const int16_t* a, int32_t rows,
                               int8_t* out) {
  const int8_t* panel = p.weights.data() + static_cast<size_t>(channel) * p.depth_padded;
  const PanelScale scale = MakePanelScale(p.scales, channel);
  const int32_t stride = p.depth_padded, columns = p.columns - channel;
  alignas(32) int32_t sums[kRows * kPanel] = {0};
  for (int32_t r = 0; r < rows; r += kRows) {
    const int32_t count = std::min(kRows, rows - r);
    AnyTile<kVectors>(count, a + static_cast<size_t>(r) * stride, stride, panel, stride / 2,
                      p.scales.bias.data() + channel, sums);
    RequantizeTile<kLeft, kFull>(scale, count, columns, p.columns, sums,
                                 out + static_cast<size_t>(r) * p.columns + channel);
  }
}

template <bool kLeft>
TFLM_TRAIN_AVX2_INLINE void GemmPanels(const PackedGemm& p, const int16_t* a, int32_t rows,
                                       int8_t* out) {
  for (int32_t c = 0; c < p.columns; c += kPanel) {
    if (p.columns - c >= kPanel) {
      GemmPanel<kLeft, true, 2>(p, c, a, rows, out);
    } else if (p.columns - c > 8) {
      GemmPanel<kLeft, false, 2>(p, c, a, rows, out);
    } else {
      GemmPanel<kLeft, false, 1>(p, c, a, rows, out);
    }
  }
}

}  // namespace

TFLM_TRAIN_AVX2 void Convert(const int8_t* x, int32_t n, void* out) {
  int16_t* o = static_cast<int16_t*>(out);
  if (n < 16) {
    for (int32_t i = 0; i < n; ++i) o[i] = x[i];
    return;
  }
  for (int32_t i = 0; i < n - 16; i += 16) Store(o + i, _mm256_cvtepi8_epi16(Load16(x + i)));
  Store(o + n - 16, _mm256_cvtepi8_epi16(Load16(x + n - 16)));
}

TFLM_TRAIN_AVX2 void Gemm(const PackedGemm& p, const void* rows_in, int32_t rows, int8_t* out) {
  const int16_t* a = static_cast<const int16_t*>(rows_in);
  if (p.scales.any_left_shift) {
    GemmPanels<true>(p, a, rows, out);
  } else {
    GemmPanels<false>(p, a, rows, out);
  }
}

TFLM_TRAIN_AVX2 void GemmSums(const PackedGemm& p, const void* rows_in, int32_t rows, int32_t pitch,
                              int32_t* out) {
  const int16_t* a = static_cast<const int16_t*>(rows_in);
  const int32_t stride = p.depth_padded, pairs = p.depth_padded / 2;
  alignas(32) int32_t sums[kRows * kPanel];
  for (int32_t c = 0; c < p.columns; c += kPanel) {
    const int8_t* panel = p.weights.data() + static_cast<size_t>(c) * p.depth_padded;
    const int32_t columns = std::min(kPanel, p.columns - c);
    for (int32_t r = 0; r < rows; r += kRows) {
      const int32_t count = std::min(kRows, rows - r);
      AnyTile<2>(count, a + static_cast<size_t>(r) * stride, stride, panel, pairs,
                 p.scales.bias.data() + c, sums);
      for (int32_t i = 0; i < count; ++i) {
        std::memcpy(out + static_cast<size_t>(r + i) * pitch + c, sums + i * kPanel,
                    sizeof(int32_t) * static_cast<size_t>(columns));
      }
    }
  }
}

TFLM_TRAIN_AVX2 void Requantize(const PackedScales& s, int32_t columns, int32_t rows,
                                const int32_t* sums, int8_t* out) {
  const int32_t pitch = RoundUp(columns, kPanel);
  for (int32_t c = 0; c < columns; c += kPanel) {
    const PanelScale scale = MakePanelScale(s, c);
    const int32_t count = std::min(kPanel, columns - c);
    for (int32_t r = 0; r < rows; ++r) {
      RequantizeTile<true, false>(scale, 1, count, columns,
                                  sums + static_cast<size_t>(r) * pitch + c,
                                  out + static_cast<size_t>(r) * columns + c);
    }
  }
}

}  // namespace avx2
}  // namespace tflm_train

#endif  // defined(__x86_64__)
