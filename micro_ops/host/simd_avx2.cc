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

// sums[r][16] = bias + products of rows r with one panel of weights.
template <int kCount>
TFLM_TRAIN_AVX2_INLINE void Tile(const int16_t* rows, int32_t stride, const int8_t* panel,
                                 int32_t pairs, const int32_t* bias, int32_t* sums) {
  __m256i acc[kCount][2];
  const __m256i bias0 = Load(bias), bias1 = Load(bias + 8);
  for (int r = 0; r < kCount; ++r) {
    acc[r][0] = bias0;
    acc[r][1] = bias1;
  }
  for (int32_t p = 0; p < pairs; ++p, panel += 2 * kPanel, rows += 2) {
    const __m256i w0 = _mm256_cvtepi8_epi16(Load16(panel));
    const __m256i w1 = _mm256_cvtepi8_epi16(Load16(panel + 16));
    for (int r = 0; r < kCount; ++r) {
      int32_t pair;
      std::memcpy(&pair, rows + r * stride, sizeof(pair));
      const __m256i x = _mm256_set1_epi32(pair);
      acc[r][0] = _mm256_add_epi32(acc[r][0], _mm256_madd_epi16(x, w0));
      acc[r][1] = _mm256_add_epi32(acc[r][1], _mm256_madd_epi16(x, w1));
    }
  }
  for (int r = 0; r < kCount; ++r) {
    Store(sums + r * kPanel, acc[r][0]);
    Store(sums + r * kPanel + 8, acc[r][1]);
  }
}

TFLM_TRAIN_AVX2 void AnyTile(int32_t count, const int16_t* rows, int32_t stride,
                             const int8_t* panel, int32_t pairs, const int32_t* bias,
                             int32_t* sums) {
  switch (count) {
    case 1:
      return Tile<1>(rows, stride, panel, pairs, bias, sums);
    case 2:
      return Tile<2>(rows, stride, panel, pairs, bias, sums);
    case 3:
      return Tile<3>(rows, stride, panel, pairs, bias, sums);
    case 4:
      return Tile<4>(rows, stride, panel, pairs, bias, sums);
    case 5:
      return Tile<5>(rows, stride, panel, pairs, bias, sums);
    default:
      return Tile<6>(rows, stride, panel, pairs, bias, sums);
  }
}

// Sums of `count` rows to `columns` int8 outputs.
template <bool kLeft>
TFLM_TRAIN_AVX2_INLINE void RequantizeTile(const PackedScales& s, int32_t channel, int32_t count,
                                           int32_t columns, int32_t out_stride, const int32_t* sums,
                                           int8_t* out) {
  const Scale scale0 =
      MakeScale(Load(s.multiplier.data() + channel), Load(s.left_shift.data() + channel),
                Load(s.right_shift.data() + channel));
  const Scale scale1 =
      MakeScale(Load(s.multiplier.data() + channel + 8), Load(s.left_shift.data() + channel + 8),
                Load(s.right_shift.data() + channel + 8));
  const __m256i offset = _mm256_set1_epi32(s.output_offset);
  const __m128i low = _mm_set1_epi8(static_cast<char>(s.activation_min));
  const __m128i high = _mm_set1_epi8(static_cast<char>(s.activation_max));
  for (int32_t r = 0; r < count; ++r, sums += kPanel, out += out_stride) {
    const __m256i v0 = _mm256_add_epi32(Apply<kLeft>(Load(sums), scale0), offset);
    const __m256i v1 = _mm256_add_epi32(Apply<kLeft>(Load(sums + 8), scale1), offset);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v0, v1), 0xd8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    StoreBytes(out, _mm_min_epi8(_mm_max_epi8(bytes, low), high), columns);
  }
}

TFLM_TRAIN_AVX2 void Gemm(const PackedGemm& p, const void* rows_in, int32_t rows, int8_t* out) {
  const int16_t* a = static_cast<const int16_t*>(rows_in);
  const int32_t stride = p.depth_padded, pairs = p.depth_padded / 2;
  alignas(32) int32_t sums[kRows * kPanel];
  for (int32_t c = 0; c < p.columns; c += kPanel) {
    const int8_t* panel = p.weights.data() + static_cast<size_t>(c) * p.depth_padded;
    const int32_t columns = std::min(kPanel, p.columns - c);
    for (int32_t r = 0; r < rows; r += kRows) {
      const int32_t count = std::min(kRows, rows - r);
      AnyTile(count, a + static_cast<size_t>(r) * stride, stride, panel, pairs,
              p.scales.bias.data() + c, sums);
      int8_t* o = out + static_cast<size_t>(r) * p.columns + c;
      if (p.scales.any_left_shift) {
        RequantizeTile<true>(p.scales, c, count, columns, p.columns, sums, o);
      } else {
        RequantizeTile<false>(p.scales, c, count, columns, p.columns, sums, o);
      }
    }
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
      AnyTile(count, a + static_cast<size_t>(r) * stride, stride, panel, pairs,
              p.scales.bias.data() + c, sums);
      for (int32_t i = 0; i < count; ++i) {
        std::memcpy(out + static_cast<size_t>(r + i) * p.columns + c, sums + i * kPanel,
                    sizeof(int32_t) * static_cast<size_t>(columns));
      }
    }
  }
}

// 16 channels of one output pixel. Channels leave the unpacking in the order 0-3 8-11, 4-7 12-15.
template <bool kLeft>
TFLM_TRAIN_AVX2_INLINE void DepthwisePanel(const PackedDepthwise& p, int32_t channel,
                                           const int8_t* const* taps, int32_t pixels, int8_t* out) {
  const PackedScales& s = p.scales;
  const int32_t columns = std::min(kPanel, p.channels - channel), pairs = (p.taps + 1) / 2;
  const int16_t* weights = p.weights.data() + static_cast<size_t>(channel) * 2 * pairs;
  const auto low_half = [&](const AlignedArray<int32_t>& v) TFLM_TRAIN_AVX2 {
    return LoadPair(v.data() + channel, v.data() + channel + 8);
  };
  const auto high_half = [&](const AlignedArray<int32_t>& v) TFLM_TRAIN_AVX2 {
    return LoadPair(v.data() + channel + 4, v.data() + channel + 12);
  };
  const Scale scale0 =
      MakeScale(low_half(s.multiplier), low_half(s.left_shift), low_half(s.right_shift));
  const Scale scale1 =
      MakeScale(high_half(s.multiplier), high_half(s.left_shift), high_half(s.right_shift));
  const __m256i bias0 = low_half(s.bias), bias1 = high_half(s.bias);
  const __m256i offset = _mm256_set1_epi32(s.output_offset);
  const __m128i low = _mm_set1_epi8(static_cast<char>(s.activation_min));
  const __m128i high = _mm_set1_epi8(static_cast<char>(s.activation_max));
  for (int32_t pixel = 0; pixel < pixels; ++pixel, out += p.channels) {
    __m256i acc0 = bias0, acc1 = bias1;
    const int16_t* w = weights;
    int32_t t = 0;
    for (; t + 1 < p.taps; t += 2, w += 2 * kPanel) {
      const __m256i x0 = _mm256_cvtepi8_epi16(LoadBytes(taps[t] + channel, columns));
      const __m256i x1 = _mm256_cvtepi8_epi16(LoadBytes(taps[t + 1] + channel, columns));
      acc0 = _mm256_add_epi32(acc0, _mm256_madd_epi16(_mm256_unpacklo_epi16(x0, x1), Load(w)));
      acc1 = _mm256_add_epi32(acc1, _mm256_madd_epi16(_mm256_unpackhi_epi16(x0, x1), Load(w + 16)));
    }
    if (t < p.taps) {
      const __m256i x0 = _mm256_cvtepi8_epi16(LoadBytes(taps[t] + channel, columns));
      const __m256i x1 = _mm256_setzero_si256();
      acc0 = _mm256_add_epi32(acc0, _mm256_madd_epi16(_mm256_unpacklo_epi16(x0, x1), Load(w)));
      acc1 = _mm256_add_epi32(acc1, _mm256_madd_epi16(_mm256_unpackhi_epi16(x0, x1), Load(w + 16)));
    }
    taps += p.taps;
    const __m256i v0 = _mm256_add_epi32(Apply<kLeft>(acc0, scale0), offset);
    const __m256i v1 = _mm256_add_epi32(Apply<kLeft>(acc1, scale1), offset);
    const __m256i words = _mm256_packs_epi32(v0, v1);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    StoreBytes(out, _mm_min_epi8(_mm_max_epi8(bytes, low), high), columns);
  }
}

TFLM_TRAIN_AVX2 void Depthwise(const PackedDepthwise& p, const int8_t* const* taps, int32_t pixels,
                               int8_t* out) {
  for (int32_t c = 0; c < p.channels; c += kPanel) {
    if (p.scales.any_left_shift) {
      DepthwisePanel<true>(p, c, taps, pixels, out + c);
    } else {
      DepthwisePanel<false>(p, c, taps, pixels, out + c);
    }
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
