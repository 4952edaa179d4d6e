// AVX2 parts of a zeroth-order step: signs from the counter RNG, sums with signs, the update.
#include <algorithm>

#include "micro_ops/core/counter_rng.h"
#include "micro_ops/core/zo_perturb.h"
#include "micro_ops/host/simd_avx2.h"

#if defined(__x86_64__)

namespace tflm_train {
namespace avx2 {
namespace {

constexpr uint32_t kBlockElements = 32;  // signs in one random word
constexpr int32_t kWords = 8;            // words made at a time

TFLM_TRAIN_AVX2_INLINE __m256i Mix(__m256i x) {
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
  x = _mm256_mullo_epi32(x, _mm256_set1_epi32(0x7feb352d));
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
  x = _mm256_mullo_epi32(x, _mm256_set1_epi32(static_cast<int32_t>(0x846ca68bu)));
  return _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
}

// Words first_block .. first_block + 7 of a stream.
TFLM_TRAIN_AVX2_INLINE __m256i Words(uint32_t key, uint32_t first_block) {
  const __m256i block = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int32_t>(first_block)),
                                         _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256i step =
      _mm256_mullo_epi32(block, _mm256_set1_epi32(static_cast<int32_t>(0x9e3779b9u)));
  return Mix(_mm256_add_epi32(_mm256_set1_epi32(static_cast<int32_t>(key)), step));
}

// 32 bytes, -1 for a bit that is 0 and +1 for a bit that is 1, the least significant first.
TFLM_TRAIN_AVX2_INLINE __m256i SignBytes(uint32_t word) {
  const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                          2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201ull));
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int32_t>(word)), spread);
  const __m256i zero = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), _mm256_setzero_si256());
  return _mm256_or_si256(zero, _mm256_set1_epi8(1));
}

TFLM_TRAIN_AVX2_INLINE int32_t Sum(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(s);
}

// Sums of kSamples samples with kColumns rows of signs. A pair of products is at most 510, so 64 of
// them fit into 16 bits.
template <int kSamples, int kColumns>
TFLM_TRAIN_AVX2 void SignTile(const uint8_t* x, int32_t depth, int32_t depth_padded,
                              const int8_t* z, int32_t* out, int32_t out_pitch) {
  constexpr int32_t kFlush = 64 * 32;
  __m256i wide[kSamples][kColumns];
#pragma GCC unroll 4
  for (int s = 0; s < kSamples; ++s) {
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; ++c) wide[s][c] = _mm256_setzero_si256();
  }
  for (int32_t begin = 0; begin < depth; begin += kFlush) {
    __m256i acc[kSamples][kColumns];
#pragma GCC unroll 4
    for (int s = 0; s < kSamples; ++s) {
#pragma GCC unroll 2
      for (int c = 0; c < kColumns; ++c) acc[s][c] = _mm256_setzero_si256();
    }
    const int32_t end = std::min(begin + kFlush, depth);
    for (int32_t i = begin; i < end; i += 32) {
      __m256i signs[kColumns];
#pragma GCC unroll 2
      for (int c = 0; c < kColumns; ++c) signs[c] = Load(z + static_cast<ptrdiff_t>(c) * depth + i);
#pragma GCC unroll 4
      for (int s = 0; s < kSamples; ++s) {
        const __m256i values = Load(x + static_cast<ptrdiff_t>(s) * depth_padded + i);
#pragma GCC unroll 2
        for (int c = 0; c < kColumns; ++c) {
          acc[s][c] = _mm256_add_epi16(acc[s][c], _mm256_maddubs_epi16(values, signs[c]));
        }
      }
    }
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (int s = 0; s < kSamples; ++s) {
#pragma GCC unroll 2
      for (int c = 0; c < kColumns; ++c) {
        wide[s][c] = _mm256_add_epi32(wide[s][c], _mm256_madd_epi16(acc[s][c], ones));
      }
    }
  }
#pragma GCC unroll 4
  for (int s = 0; s < kSamples; ++s) {
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; ++c) out[s * out_pitch + c] = Sum(wide[s][c]);
  }
}

// u[0 .. 31] = sum over directions of a_k * z_k for one block. a_k * z_k = 2 a_k * bit - a_k.
TFLM_TRAIN_AVX2_INLINE void SumDirections(const ZoUpdateParams& p, const uint32_t* words,
                                          int32_t pitch, __m256i* u) {
  int32_t negative = 0;
  for (int32_t k = 0; k < p.q; ++k) negative -= p.coefficients[k];
  for (int g = 0; g < 4; ++g) u[g] = _mm256_set1_epi32(negative);
  __m256i up[4];
  for (int g = 0; g < 4; ++g) {
    up[g] =
        _mm256_sub_epi32(_mm256_set1_epi32(31 - 8 * g), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  for (int32_t k = 0; k < p.q; ++k) {
    const __m256i twice = _mm256_set1_epi32(2 * p.coefficients[k]);
    const __m256i word = _mm256_set1_epi32(static_cast<int32_t>(words[k * pitch]));
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const __m256i mask = _mm256_srai_epi32(_mm256_sllv_epi32(word, up[g]), 31);
      u[g] = _mm256_add_epi32(u[g], _mm256_and_si256(mask, twice));
    }
  }
}

// Momentum of eight elements, updated in place; the new values.
TFLM_TRAIN_AVX2_INLINE __m256i Momentum(__m256i u, int32_t beta_q8, int32_t* momentum) {
  const __m256i fade = _mm256_set1_epi32(256 - beta_q8);
  const __m256i most = _mm256_set1_epi32(int32_t{1} << 30);
  const __m256i old = Load(momentum);
  const __m256i high = _mm256_mullo_epi32(_mm256_srai_epi32(old, 8), fade);
  const __m256i low =
      _mm256_srli_epi32(_mm256_mullo_epi32(_mm256_and_si256(old, _mm256_set1_epi32(255)), fade), 8);
  __m256i m = _mm256_add_epi32(u, _mm256_sub_epi32(old, _mm256_add_epi32(high, low)));
  m = _mm256_min_epi32(_mm256_max_epi32(m, _mm256_sub_epi32(_mm256_setzero_si256(), most)), most);
  Store(momentum, m);
  return m;
}

// 32 weights: w = clamp(w - floor((m + r) / 2^16)); returns how many ended at the limit.
TFLM_TRAIN_AVX2_INLINE uint32_t Step(const ZoUpdateParams& p, uint32_t rounding_key, uint32_t block,
                                     const __m256i* m, int8_t* w) {
  const __m256i limit = _mm256_set1_epi32(p.limit);
  const __m256i least = _mm256_set1_epi32(-p.limit);
  __m256i at_limit = _mm256_setzero_si256();
  __m256i result[4];
  for (int half = 0; half < 2; ++half) {
    const __m256i words = Words(rounding_key, block + 8 * half);
    const __m256i low = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
    const __m256i high = _mm256_srli_epi32(words, 16);
    const __m256i a = _mm256_unpacklo_epi32(low, high), b = _mm256_unpackhi_epi32(low, high);
    const __m256i draws[2] = {_mm256_permute2x128_si256(a, b, 0x20),
                              _mm256_permute2x128_si256(a, b, 0x31)};
    for (int i = 0; i < 2; ++i) {
      const int g = 2 * half + i;
      const __m256i delta = _mm256_srai_epi32(_mm256_add_epi32(m[g], draws[i]), 16);
      const __m256i old =
          _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(w + 8 * g)));
      const __m256i value =
          _mm256_min_epi32(_mm256_max_epi32(_mm256_sub_epi32(old, delta), least), limit);
      at_limit = _mm256_sub_epi32(at_limit, _mm256_or_si256(_mm256_cmpeq_epi32(value, limit),
                                                            _mm256_cmpeq_epi32(value, least)));
      result[g] = value;
    }
  }
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(result[0], result[1]),
                                           _mm256_packs_epi32(result[2], result[3]));
  Store(w, _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  return static_cast<uint32_t>(Sum(at_limit));
}

}  // namespace

TFLM_TRAIN_AVX2 void ExpandSigns(uint32_t key, uint32_t first_block, uint32_t size, int8_t* z) {
  alignas(32) uint32_t words[kWords];
  for (uint32_t j = 0, block = first_block; j < size; block += kWords) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(words), Words(key, block));
    for (int i = 0; i < kWords && j < size; ++i, j += kBlockElements) {
      Store(z + j, SignBytes(words[i]));
    }
  }
}

TFLM_TRAIN_AVX2 void SignSums(const uint8_t* x, int32_t samples, int32_t depth,
                              int32_t depth_padded, const int8_t* z, int32_t columns,
                              int32_t* out) {
  for (int32_t c = 0; c < columns; c += 2) {
    const bool two = c + 1 < columns;
    const int8_t* signs = z + static_cast<ptrdiff_t>(c) * depth;
    int32_t s = 0;
    for (; s + 4 <= samples; s += 4) {
      const uint8_t* rows = x + static_cast<ptrdiff_t>(s) * depth_padded;
      int32_t* o = out + static_cast<ptrdiff_t>(s) * columns + c;
      two ? SignTile<4, 2>(rows, depth, depth_padded, signs, o, columns)
          : SignTile<4, 1>(rows, depth, depth_padded, signs, o, columns);
    }
    for (; s < samples; ++s) {
      const uint8_t* rows = x + static_cast<ptrdiff_t>(s) * depth_padded;
      int32_t* o = out + static_cast<ptrdiff_t>(s) * columns + c;
      two ? SignTile<1, 2>(rows, depth, depth_padded, signs, o, columns)
          : SignTile<1, 1>(rows, depth, depth_padded, signs, o, columns);
    }
  }
}

TFLM_TRAIN_AVX2 void Perturb(int8_t* w, uint32_t size, uint32_t key, uint32_t first_block,
                             int32_t delta) {
  const __m256i step = _mm256_set1_epi8(static_cast<char>(delta));
  const uint32_t whole = size / kBlockElements * kBlockElements;
  alignas(32) uint32_t words[kWords];
  for (uint32_t j = 0, block = first_block; j < whole; block += kWords) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(words), Words(key, block));
    for (int i = 0; i < kWords && j < whole; ++i, j += kBlockElements) {
      Store(w + j, _mm256_add_epi8(Load(w + j), _mm256_sign_epi8(step, SignBytes(words[i]))));
    }
  }
  ZoPerturbInt8(w + whole, size - whole, key, first_block + whole / kBlockElements, delta);
}

TFLM_TRAIN_AVX2 uint32_t Update(const ZoUpdateParams& p, int8_t* w, int32_t* momentum,
                                uint32_t size) {
  const uint32_t step_key = RngStepKey(p.seed, p.step);
  const uint32_t rounding_key = RngKey(p.seed, p.step, kRoundingStream);
  const uint32_t blocks = size / kBlockElements;
  alignas(32) uint32_t words[kZoMaxQ * kWords];
  uint32_t saturated = 0;
  for (uint32_t begin = 0; begin < blocks; begin += kWords) {
    for (int32_t k = 0; k < p.q; ++k) {
      const uint32_t key = RngMix(step_key + static_cast<uint32_t>(k));
      _mm256_store_si256(reinterpret_cast<__m256i*>(words + k * kWords),
                         Words(key, p.first_sign_block + begin));
    }
    const uint32_t end = std::min(begin + kWords, blocks);
    for (uint32_t block = begin; block < end; ++block) {
      __m256i m[4];
      SumDirections(p, words + (block - begin), kWords, m);
      if (momentum != nullptr) {
        for (int g = 0; g < 4; ++g) {
          m[g] = Momentum(m[g], p.beta_q8, momentum + block * kBlockElements + 8 * g);
        }
      }
      saturated +=
          Step(p, rounding_key, p.first_rounding_block + block * 16, m, w + block * kBlockElements);
    }
  }
  const uint32_t whole = blocks * kBlockElements;
  if (whole == size) return saturated;
  ZoUpdateParams rest = p;
  rest.first_sign_block += blocks;
  rest.first_rounding_block += blocks * 16;
  return saturated +
         ZoUpdateInt8(rest, w + whole, momentum ? momentum + whole : nullptr, size - whole);
}

}  // namespace avx2
}  // namespace tflm_train

#endif  // defined(__x86_64__)
