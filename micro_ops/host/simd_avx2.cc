// AVX2 kernels: pairs of int16 products summed in 32 bits (no saturation can occur), output
// channels in the lanes.
#include "micro_ops/host/simd_avx2.h"

#include "micro_ops/host/simd_levels.h"

#if defined(__x86_64__)

#include <algorithm>

namespace tflm_train {
namespace {

using namespace avx2;  // NOLINT: the names above, in this file only

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

const SimdKernels kKernels = {"avx2",
                              2,
                              2,
                              0,
                              &avx2::Convert,
                              &avx2::Gemm,
                              &avx2::GemmSums,
                              true,
                              &Depthwise,
                              &Add,
                              &SumRows,
                              &MaxRow,
                              &avx2::ExpandSigns,
                              &avx2::SignSums,
                              &avx2::Requantize,
                              &avx2::Perturb,
                              &avx2::Update};

}  // namespace

const SimdKernels* Avx2Kernels() { return __builtin_cpu_supports("avx2") ? &kKernels : nullptr; }

}  // namespace tflm_train

#else

namespace tflm_train {
const SimdKernels* Avx2Kernels() { return nullptr; }
}  // namespace tflm_train

#endif  // defined(__x86_64__)
