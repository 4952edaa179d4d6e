// Building blocks of the AVX2 kernels. Every function carries its target attribute, so that one
// binary runs on any x86-64 and these only after a check of the processor.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_SIMD_AVX2_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_SIMD_AVX2_H_

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "micro_ops/core/zo_update.h"
#include "micro_ops/host/packed.h"

#define TFLM_TRAIN_AVX2 __attribute__((target("avx2")))
#define TFLM_TRAIN_AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline

namespace tflm_train {
namespace avx2 {

TFLM_TRAIN_AVX2_INLINE __m256i Load(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
TFLM_TRAIN_AVX2_INLINE __m128i Load16(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
TFLM_TRAIN_AVX2_INLINE void Store(void* p, __m256i v) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}
// Two runs of four values side by side.
TFLM_TRAIN_AVX2_INLINE __m256i LoadPair(const int32_t* low, const int32_t* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(Load16(low)), Load16(high), 1);
}

// MultiplyByQuantizedMultiplier of eight values, each with its own scale.
struct Scale {
  __m256i multiplier, multiplier_odd, left, right, mask, half;
};

TFLM_TRAIN_AVX2_INLINE Scale MakeScale(__m256i multiplier, __m256i left, __m256i right) {
  Scale s;
  s.multiplier = multiplier;
  s.multiplier_odd = _mm256_srli_epi64(multiplier, 32);
  s.left = left;
  s.right = right;
  s.mask = _mm256_sub_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(1), right), _mm256_set1_epi32(1));
  s.half = _mm256_srli_epi32(s.mask, 1);
  return s;
}

template <bool kLeft>
TFLM_TRAIN_AVX2_INLINE __m256i Apply(__m256i x, const Scale& s) {
  if (kLeft) x = _mm256_sllv_epi32(x, s.left);
  // (x * multiplier + 2^30) >> 31 in 64 bits, even and odd lanes apart.
  const __m256i round = _mm256_set1_epi64x(int64_t{1} << 30);
  __m256i even = _mm256_mul_epi32(x, s.multiplier);
  __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(x, 32), s.multiplier_odd);
  even = _mm256_srli_epi64(_mm256_add_epi64(even, round), 31);
  odd = _mm256_slli_epi64(_mm256_add_epi64(odd, round), 1);
  const __m256i high = _mm256_blend_epi32(even, odd, 0xaa);
  // Rounding shift, ties away from zero.
  const __m256i remainder = _mm256_and_si256(high, s.mask);
  const __m256i threshold = _mm256_sub_epi32(s.half, _mm256_srai_epi32(high, 31));
  return _mm256_sub_epi32(_mm256_srav_epi32(high, s.right),
                          _mm256_cmpgt_epi32(remainder, threshold));
}

// Stores the first `count` (1 .. 16) bytes of v.
TFLM_TRAIN_AVX2_INLINE void StoreBytes(int8_t* out, __m128i v, int32_t count) {
  if (count == 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), v);
  } else if (count == 8) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out), v);
  } else {
    alignas(16) int8_t bytes[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(bytes), v);
    std::memcpy(out, bytes, static_cast<size_t>(count));
  }
}

// Loads `count` (1 .. 16) bytes and nothing behind them.
TFLM_TRAIN_AVX2_INLINE __m128i LoadBytes(const int8_t* in, int32_t count) {
  if (count == 16) return Load16(in);
  if (count == 8) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in));
  alignas(16) int8_t bytes[16] = {0};
  std::memcpy(bytes, in, static_cast<size_t>(count));
  return _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
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

// simd_avx2_gemm.cc
void Convert(const int8_t* x, int32_t n, void* out);
void Gemm(const PackedGemm& p, const void* rows_in, int32_t rows, int8_t* out);
void GemmSums(const PackedGemm& p, const void* rows_in, int32_t rows, int32_t pitch, int32_t* out);
void Requantize(const PackedScales& s, int32_t columns, int32_t rows, const int32_t* sums,
                int8_t* out);

// simd_avx2_zo.cc
void ExpandSigns(uint32_t key, uint32_t first_block, uint32_t size, int8_t* z);
void SignSums(const uint8_t* x, int32_t samples, int32_t depth, int32_t depth_padded,
              const int8_t* z, int32_t columns, int32_t* out);
void Perturb(int8_t* w, uint32_t size, uint32_t key, uint32_t first_block, int32_t delta);
uint32_t Update(const ZoUpdateParams& params, int8_t* w, int32_t* momentum, uint32_t size);

}  // namespace avx2
}  // namespace tflm_train

#endif  // defined(__x86_64__)

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_SIMD_AVX2_H_
