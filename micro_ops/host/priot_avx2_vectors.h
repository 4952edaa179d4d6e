// Rounding and packing of eight int32 lanes, the vector twins of niti_rounding.h. Include only
// where AVX2 code may be generated.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_AVX2_VECTORS_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_AVX2_VECTORS_H_

#include <immintrin.h>

#include "micro_ops/core/niti_rounding.h"

namespace tflm_train {
namespace avx2 {

inline __m256i MixLanes(__m256i x) {
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
  x = _mm256_mullo_epi32(x, _mm256_set1_epi32(0x7feb352d));
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
  x = _mm256_mullo_epi32(x, _mm256_set1_epi32(static_cast<int>(0x846ca68bu)));
  return _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
}

// Shift counts and constants of one requantisation, prepared once.
template <Rounding kMode>
struct RoundLanes {
  int shift;
  uint32_t key;
  __m128i by_shift, by_less, by_half, by_odd, by_word;
  __m256i mask, half_mask, half;

  RoundLanes(int s, uint32_t k) : shift(s), key(k) {
    by_shift = _mm_cvtsi32_si128(s);
    by_less = _mm_cvtsi32_si128(s > 0 ? s - 1 : 0);
    by_half = _mm_cvtsi32_si128(s / 2);
    by_odd = _mm_cvtsi32_si128(s & 1);
    by_word = _mm_cvtsi32_si128(32 - s);
    mask = _mm256_set1_epi32(static_cast<int>((s > 0 ? (1u << s) : 1u) - 1u));
    half_mask = _mm256_set1_epi32(static_cast<int>((1u << (s / 2)) - 1u));
    half = _mm256_set1_epi32(s > 0 ? static_cast<int>(1u << (s - 1)) : 0);
    if (kMode == Rounding::kTflm) {
      const uint32_t rest = s > 1 ? (1u << (s - 1)) - 1u : 0u;
      mask = _mm256_set1_epi32(static_cast<int>(rest));
      half = _mm256_set1_epi32(static_cast<int>(rest >> 1));
    }
  }

  // Lanes are the elements index .. index + 7 of their tensor, in the order of `lanes`.
  // Inlined by force: a call would pass its vectors through memory.
  __attribute__((always_inline)) inline __m256i operator()(__m256i v, uint32_t index,
                                                           __m256i lanes) const {
    if (shift == 0) return v;
    switch (kMode) {
      case Rounding::kHalfUp:
        return _mm256_add_epi32(
            _mm256_sra_epi32(v, by_shift),
            _mm256_and_si256(_mm256_srl_epi32(v, by_less), _mm256_set1_epi32(1)));
      case Rounding::kHalfAway: {
        const __m256i m = _mm256_srl_epi32(_mm256_add_epi32(_mm256_abs_epi32(v), half), by_shift);
        return _mm256_sign_epi32(m, v);
      }
      case Rounding::kPseudoStochastic: {
        const __m256i m = _mm256_abs_epi32(v);
        const __m256i dropped = _mm256_and_si256(m, mask);
        const __m256i high = _mm256_srl_epi32(dropped, by_half);
        const __m256i low = _mm256_sll_epi32(_mm256_and_si256(dropped, half_mask), by_odd);
        const __m256i q =
            _mm256_sub_epi32(_mm256_srl_epi32(m, by_shift), _mm256_cmpgt_epi32(high, low));
        return _mm256_sign_epi32(q, v);
      }
      case Rounding::kStochastic: {
        const __m256i block =
            _mm256_mullo_epi32(_mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(index)), lanes),
                               _mm256_set1_epi32(static_cast<int>(0x9e3779b9u)));
        const __m256i word =
            MixLanes(_mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(key)), block));
        const __m256i sum =
            _mm256_add_epi32(_mm256_and_si256(v, mask), _mm256_srl_epi32(word, by_word));
        return _mm256_add_epi32(_mm256_sra_epi32(v, by_shift), _mm256_srl_epi32(sum, by_shift));
      }
      case Rounding::kTflm: {
        const __m256i h =
            _mm256_add_epi32(_mm256_srai_epi32(v, 1), _mm256_and_si256(v, _mm256_set1_epi32(1)));
        if (shift == 1) return h;
        const __m256i negative = _mm256_cmpgt_epi32(_mm256_setzero_si256(), h);
        const __m256i up =
            _mm256_cmpgt_epi32(_mm256_and_si256(h, mask), _mm256_sub_epi32(half, negative));
        return _mm256_sub_epi32(_mm256_sra_epi32(h, by_less), up);
      }
    }
    return v;
  }
};

inline __m256i InOrder() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
// Elements that unpacklo / unpackhi of sixteen int16 leave in their eight lanes.
inline __m256i UnpackedLow() { return _mm256_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11); }
inline __m256i UnpackedHigh() { return _mm256_setr_epi32(4, 5, 6, 7, 12, 13, 14, 15); }

inline __m128i Load16(const int8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline __m256i Load32(const int8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline __m256i LoadWords(const int32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline void StoreWords(int32_t* p, __m256i v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}

// Sixteen int16 in order to sixteen saturated int8.
inline __m128i PackBytes(__m256i v) {
  return _mm_packs_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

// Eight int32 sums of a[i] * e.low + b[i] * e.high over eight byte pairs.
inline __m256i PairProducts(__m128i interleaved, __m256i errors) {
  return _mm256_madd_epi16(_mm256_cvtepi8_epi16(interleaved), errors);
}
inline __m256i ErrorPair(int32_t first, int32_t second) {
  return _mm256_set1_epi32(static_cast<int>((static_cast<uint32_t>(second) << 16) |
                                            (static_cast<uint32_t>(first) & 0xffffu)));
}

}  // namespace avx2
}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_AVX2_VECTORS_H_
