// AVX2 kernels: pairs of int16 products summed in 32 bits (no saturation can occur), output
// channels in the lanes.
#include "micro_ops/host/simd_avx2.h"

#include "micro_ops/host/simd_levels.h"

#if defined(__x86_64__)

#include <algorithm>

namespace tflm_train {
namespace {

using namespace avx2;  // NOLINT: the names above, in this file only

constexpr int32_t kRows = 6;  // rows of one register tile

TFLM_TRAIN_AVX2 void Convert(const int8_t* x, int32_t n, void* out) {
  int16_t* o = static_cast<int16_t*>(out);
  if (n < 16) {
    for (int32_t i = 0; i < n; ++i) o[i] = x[i];
    return;
  }
  for (int32_t i = 0; i < n - 16; i += 16) Store(o + i, _mm256_cvtepi8_epi16(Load16(x + i)));
  Store(o + n - 16, _mm256_cvtepi8_epi16(Load16(x + n - 16)));
}

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

// What turns the sums of one panel into outputs.
struct PanelScale {
  Scale scale0, scale1;
  __m256i offset;
  __m128i low, high;
};

TFLM_TRAIN_AVX2_INLINE PanelScale MakePanelScale(const PackedScales& s, int32_t channel) {
  const int32_t* m = s.multiplier.data() + channel;
  const int32_t* left = s.left_shift.data() + channel;
  const int32_t* right = s.right_shift.data() + channel;
  return {MakeScale(Load(m), Load(left), Load(right)),
          MakeScale(Load(m + 8), Load(left + 8), Load(right + 8)),
          _mm256_set1_epi32(s.output_offset), _mm_set1_epi8(static_cast<char>(s.activation_min)),
          _mm_set1_epi8(static_cast<char>(s.activation_max))};
}

// Sums of `count` rows to `columns` int8 outputs.
template <bool kLeft, bool kFull>
TFLM_TRAIN_AVX2_INLINE void RequantizeTile(const PanelScale& s, int32_t count, int32_t columns,
                                           int32_t out_stride, const int32_t* sums, int8_t* out) {
  for (int32_t r = 0; r < count; ++r, sums += kPanel, out += out_stride) {
    const __m256i v0 = _mm256_add_epi32(Apply<kLeft>(Load(sums), s.scale0), s.offset);
    const __m256i v1 = _mm256_add_epi32(Apply<kLeft>(Load(sums + 8), s.scale1), s.offset);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v0, v1), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    StoreBytes(out, _mm_min_epi8(_mm_max_epi8(bytes, s.low), s.high), kFull ? kPanel : columns);
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

TFLM_TRAIN_AVX2 void Gemm(const PackedGemm& p, const void* rows_in, int32_t rows, int8_t* out) {
  const int16_t* a = static_cast<const int16_t*>(rows_in);
  if (p.scales.any_left_shift) {
    GemmPanels<true>(p, a, rows, out);
  } else {
    GemmPanels<false>(p, a, rows, out);
  }
}

TFLM_TRAIN_AVX2 void GemmSums(const PackedGemm& p, const void* rows_in, int32_t rows,
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
        std::memcpy(out + static_cast<size_t>(r + i) * p.columns + c, sums + i * kPanel,
                    sizeof(int32_t) * static_cast<size_t>(columns));
      }
    }
  }
}

// Adds the products of a pair of taps. Channels leave the unpacking in the order 0-3 8-11, 4-7
// 12-15, which is the order of swizzled weights.
TFLM_TRAIN_AVX2_INLINE void AddTaps(__m256i x0, __m256i x1, const int16_t* w, __m256i* acc0,
                                    __m256i* acc1) {
  *acc0 = _mm256_add_epi32(*acc0, _mm256_madd_epi16(_mm256_unpacklo_epi16(x0, x1), Load(w)));
  *acc1 = _mm256_add_epi32(*acc1, _mm256_madd_epi16(_mm256_unpackhi_epi16(x0, x1), Load(w + 16)));
}

// 16 channels of a run of output pixels. kTaps: the number of taps when it is known, else 0.
template <bool kLeft, bool kFull, int kTaps>
TFLM_TRAIN_AVX2 void DepthwisePanel(const PackedDepthwise& p, int32_t channel,
                                    const int8_t* const* tap_pointers, int32_t pixels, int32_t step,
                                    int8_t* out) {
  const PackedScales& s = p.scales;
  const int32_t columns = kFull ? kPanel : p.channels - channel;
  const int32_t taps = kTaps ? kTaps : p.taps;
  const int16_t* weights = p.weights.data() + static_cast<size_t>(channel) * (taps + taps % 2);
  const int32_t* m = s.multiplier.data() + channel;
  const int32_t* left = s.left_shift.data() + channel;
  const int32_t* right = s.right_shift.data() + channel;
  const int32_t* bias = s.bias.data() + channel;
  const Scale scale0 =
      MakeScale(LoadPair(m, m + 8), LoadPair(left, left + 8), LoadPair(right, right + 8));
  const Scale scale1 = MakeScale(LoadPair(m + 4, m + 12), LoadPair(left + 4, left + 12),
                                 LoadPair(right + 4, right + 12));
  const __m256i bias0 = LoadPair(bias, bias + 8), bias1 = LoadPair(bias + 4, bias + 12);
  const __m256i offset = _mm256_set1_epi32(s.output_offset);
  const __m128i low = _mm_set1_epi8(static_cast<char>(s.activation_min));
  const __m128i high = _mm_set1_epi8(static_cast<char>(s.activation_max));
  ptrdiff_t at = channel;
  for (int32_t pixel = 0; pixel < pixels; ++pixel, out += p.channels, at += step) {
    __m256i acc0 = bias0, acc1 = bias1;
#pragma GCC unroll 4
    for (int32_t t = 0; t < taps / 2; ++t) {
      const __m256i x0 = _mm256_cvtepi8_epi16(LoadBytes(tap_pointers[2 * t] + at, columns));
      const __m256i x1 = _mm256_cvtepi8_epi16(LoadBytes(tap_pointers[2 * t + 1] + at, columns));
      AddTaps(x0, x1, weights + 2 * kPanel * t, &acc0, &acc1);
    }
    if (taps % 2) {
      const __m256i x0 = _mm256_cvtepi8_epi16(LoadBytes(tap_pointers[taps - 1] + at, columns));
      AddTaps(x0, _mm256_setzero_si256(), weights + kPanel * (taps - 1), &acc0, &acc1);
    }
    const __m256i v0 = _mm256_add_epi32(Apply<kLeft>(acc0, scale0), offset);
    const __m256i v1 = _mm256_add_epi32(Apply<kLeft>(acc1, scale1), offset);
    const __m256i words = _mm256_packs_epi32(v0, v1);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    StoreBytes(out, _mm_min_epi8(_mm_max_epi8(bytes, low), high), columns);
  }
}

template <bool kLeft>
TFLM_TRAIN_AVX2_INLINE void DepthwisePanels(const PackedDepthwise& p, const int8_t* const* taps,
                                            int32_t pixels, int32_t step, int8_t* out) {
  for (int32_t c = 0; c < p.channels; c += kPanel) {
    if (p.channels - c < kPanel) {
      DepthwisePanel<kLeft, false, 0>(p, c, taps, pixels, step, out + c);
    } else if (p.taps == 9) {
      DepthwisePanel<kLeft, true, 9>(p, c, taps, pixels, step, out + c);
    } else {
      DepthwisePanel<kLeft, true, 0>(p, c, taps, pixels, step, out + c);
    }
  }
}

TFLM_TRAIN_AVX2 void Depthwise(const PackedDepthwise& p, const int8_t* const* taps, int32_t pixels,
                               int32_t step, int8_t* out) {
  if (p.scales.any_left_shift) {
    DepthwisePanels<true>(p, taps, pixels, step, out);
  } else {
    DepthwisePanels<false>(p, taps, pixels, step, out);
  }
}

TFLM_TRAIN_AVX2_INLINE Scale OneScale(int32_t multiplier, int32_t shift) {
  return MakeScale(_mm256_set1_epi32(multiplier), _mm256_set1_epi32(std::max(shift, 0)),
                   _mm256_set1_epi32(std::max(-shift, 0)));
}

TFLM_TRAIN_AVX2 void Add(const AddParams& p, int32_t n, const int8_t* a, const int8_t* b,
                         int8_t* out) {
  const Scale scale1 = OneScale(p.input1_multiplier, p.input1_shift);
  const Scale scale2 = OneScale(p.input2_multiplier, p.input2_shift);
  const Scale scale = OneScale(p.output_multiplier, p.output_shift);
  const __m256i offset1 = _mm256_set1_epi32(p.input1_offset);
  const __m256i offset2 = _mm256_set1_epi32(p.input2_offset);
  const __m256i offset = _mm256_set1_epi32(p.output_offset);
  const __m128i low = _mm_set1_epi8(static_cast<char>(p.activation_min));
  const __m128i high = _mm_set1_epi8(static_cast<char>(p.activation_max));
  const auto eight = [&](__m128i x, __m128i y) TFLM_TRAIN_AVX2 {
    const __m256i u = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtepi8_epi32(x), offset1), 20);
    const __m256i v = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtepi8_epi32(y), offset2), 20);
    const __m256i sum = _mm256_add_epi32(Apply<true>(u, scale1), Apply<true>(v, scale2));
    return _mm256_add_epi32(Apply<true>(sum, scale), offset);
  };
  for (int32_t i = 0; i < n; i += 16) {
    const int32_t count = std::min(16, n - i);
    const __m128i x = LoadBytes(a + i, count), y = LoadBytes(b + i, count);
    const __m256i v0 = eight(x, y);
    const __m256i v1 = eight(_mm_srli_si128(x, 8), _mm_srli_si128(y, 8));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v0, v1), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    StoreBytes(out + i, _mm_min_epi8(_mm_max_epi8(bytes, low), high), count);
  }
}

// Sums over rows of `channels` values.
TFLM_TRAIN_AVX2 void SumRows(const int8_t* x, int32_t rows, int32_t pitch, int32_t channels,
                             int32_t* sums) {
  for (int32_t c = 0; c < channels; c += 16) {
    const int32_t count = std::min(16, channels - c);
    __m256i acc0 = _mm256_setzero_si256(), acc1 = acc0;
    for (int32_t r = 0; r < rows; ++r) {
      const __m128i v = LoadBytes(x + static_cast<size_t>(r) * pitch + c, count);
      acc0 = _mm256_add_epi32(acc0, _mm256_cvtepi8_epi32(v));
      acc1 = _mm256_add_epi32(acc1, _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)));
    }
    alignas(32) int32_t both[16];
    Store(both, acc0);
    Store(both + 8, acc1);
    std::memcpy(sums + c, both, sizeof(int32_t) * static_cast<size_t>(count));
  }
}

TFLM_TRAIN_AVX2 void MaxRow(const int8_t* x, int32_t n, int8_t* highest) {
  int32_t i = 0;
  for (; i + 32 <= n; i += 32) {
    Store(highest + i, _mm256_max_epi8(Load(highest + i), Load(x + i)));
  }
  for (; i < n; ++i) highest[i] = std::max(highest[i], x[i]);
}

const SimdKernels kKernels = {"avx2",    2,    2,          0,    &Convert, &Gemm,
                              &GemmSums, true, &Depthwise, &Add, &SumRows, &MaxRow};

}  // namespace

const SimdKernels* Avx2Kernels() { return __builtin_cpu_supports("avx2") ? &kKernels : nullptr; }

}  // namespace tflm_train

#else

namespace tflm_train {
const SimdKernels* Avx2Kernels() { return nullptr; }
}  // namespace tflm_train

#endif  // defined(__x86_64__)
