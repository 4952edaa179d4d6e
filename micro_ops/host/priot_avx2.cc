// AVX2 requantisation and edge updates.
#include "micro_ops/host/priot_avx2.h"

#ifdef TFLM_TRAIN_HAVE_AVX2
#include <immintrin.h>

#include "micro_ops/host/priot_avx2_begin.h"
#include "micro_ops/host/priot_avx2_vectors.h"

namespace tflm_train {
namespace avx2 {
namespace {

template <Rounding kMode>
void RequantizeLanes(const int32_t* values, int32_t size, const Requantize& params, int32_t index,
                     int8_t* output) {
  const RoundLanes<kMode> round(params.shift, params.key);
  const __m256i low = _mm256_set1_epi8(static_cast<char>(params.low));
  const __m256i high = _mm256_set1_epi8(static_cast<char>(params.high));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  int32_t i = 0;
  for (; i + 32 <= size; i += 32) {
    __m256i v[4];
    for (int n = 0; n < 4; ++n) {
      v[n] =
          round(LoadWords(values + i + 8 * n), static_cast<uint32_t>(index + i + 8 * n), InOrder());
    }
    const __m256i packed =
        _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    const __m256i bytes = _mm256_permutevar8x32_epi32(packed, order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + i),
                        _mm256_max_epi8(low, _mm256_min_epi8(high, bytes)));
  }
  for (; i < size; ++i) output[i] = RequantizeValue(params, values[i], index + i);
}

// Sixteen edges whose products are in `a` and `b` so that packs(a, b) puts them in order after
// `permute`.
template <Rounding kMode, bool kPermute>
inline void StepSixteen(const EdgeRow& row, const RoundLanes<kMode>& round, int32_t i, __m256i a,
                        __m256i b, __m256i lanes_a, __m256i lanes_b) {
  const uint32_t edge = static_cast<uint32_t>(row.first_edge + i);
  __m256i step = _mm256_packs_epi32(round(a, edge, lanes_a), round(b, edge, lanes_b));
  if (kPermute) step = _mm256_permute4x64_epi64(step, 0xd8);
  const __m256i limit = _mm256_set1_epi16(127);
  step = _mm256_max_epi16(_mm256_sub_epi16(_mm256_setzero_si256(), limit),
                          _mm256_min_epi16(step, limit));
  if (row.scored != nullptr) {
    const __m128i scored = Load16(reinterpret_cast<const int8_t*>(row.scored) + i);
    step = _mm256_and_si256(step, _mm256_cvtepi8_epi16(scored));
  }
  if (_mm256_testz_si256(step, step)) return;
  UpdateCounts& counts = *row.counts;
  const __m128i bytes = PackBytes(step);
  const __m128i moved = _mm_cmpeq_epi8(bytes, _mm_setzero_si128());
  const int changed = ~_mm_movemask_epi8(moved) & 0xffff;
  counts.changed += __builtin_popcount(static_cast<unsigned>(changed));
  const __m128i ends = _mm_cmpeq_epi8(_mm_abs_epi8(bytes), _mm_set1_epi8(127));
  counts.saturated += __builtin_popcount(static_cast<unsigned>(_mm_movemask_epi8(ends)));
  if (row.scores == nullptr) {
    const __m256i w = _mm256_cvtepi8_epi16(Load16(row.weights + i));
    const __m128i after = _mm_max_epi8(PackBytes(_mm256_sub_epi16(w, step)), _mm_set1_epi8(-127));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row.weights + i), after);
    const __m128i at = _mm_cmpeq_epi8(_mm_abs_epi8(after), _mm_set1_epi8(127));
    counts.at_limit += __builtin_popcount(static_cast<unsigned>(_mm_movemask_epi8(at) & changed));
    return;
  }
  const __m128i before = Load16(row.scores + i);
  const __m128i after = PackBytes(_mm256_sub_epi16(_mm256_cvtepi8_epi16(before), step));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(row.scores + i), after);
  const __m128i threshold = _mm_set1_epi8(static_cast<char>(row.threshold));
  const __m128i was = _mm_cmpgt_epi8(threshold, before);
  const __m128i is = _mm_cmpgt_epi8(threshold, after);
  __m128i pruned = is;
  if (row.scored != nullptr) {
    pruned = _mm_and_si128(is, Load16(reinterpret_cast<const int8_t*>(row.scored) + i));
  }
  _mm_storeu_si128(reinterpret_cast<__m128i*>(row.masked + i),
                   _mm_andnot_si128(pruned, Load16(row.weights + i)));
  const unsigned was_bits = static_cast<unsigned>(_mm_movemask_epi8(was));
  const unsigned is_bits = static_cast<unsigned>(_mm_movemask_epi8(is));
  counts.pruned += __builtin_popcount(is_bits & ~was_bits);
  counts.restored += __builtin_popcount(was_bits & ~is_bits);
  const __m128i at = _mm_or_si128(_mm_cmpeq_epi8(after, _mm_set1_epi8(127)),
                                  _mm_cmpeq_epi8(after, _mm_set1_epi8(-128)));
  counts.at_limit += __builtin_popcount(static_cast<unsigned>(_mm_movemask_epi8(at) & changed));
}

template <Rounding kMode>
void UpdateRowLanes(const EdgeRow& row, const int32_t* gradient) {
  const RoundLanes<kMode> round(row.params.shift, row.params.key);
  const __m256i lanes = InOrder();
  const __m256i next = _mm256_add_epi32(lanes, _mm256_set1_epi32(8));
  int32_t i = 0;
  for (; i + 16 <= row.size; i += 16) {
    __m256i a = LoadWords(gradient + i);
    __m256i b = LoadWords(gradient + i + 8);
    if (row.scores != nullptr) {
      const __m128i w = Load16(row.weights + i);
      a = _mm256_mullo_epi32(a, _mm256_cvtepi8_epi32(w));
      b = _mm256_mullo_epi32(b, _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(w, w)));
    }
    StepSixteen<kMode, true>(row, round, i, a, b, lanes, next);
  }
  UpdateEdges(row, gradient, i, row.size);
}

template <Rounding kMode>
void UpdateDenseRowLanes(const EdgeRow& row, int32_t error, const int8_t* input) {
  const RoundLanes<kMode> round(row.params.shift, row.params.key);
  const __m256i e = _mm256_set1_epi16(static_cast<int16_t>(error));
  int32_t i = 0;
  for (; i + 16 <= row.size; i += 16) {
    const __m128i x = Load16(input + i);
    if (_mm_testz_si128(x, x)) continue;
    const __m256i product = _mm256_mullo_epi16(_mm256_cvtepi8_epi16(x), e);
    __m256i low, high;
    if (row.scores == nullptr) {
      const __m256i sign = _mm256_srai_epi16(product, 15);
      low = product;
      high = sign;
    } else {
      const __m256i w = _mm256_cvtepi8_epi16(Load16(row.weights + i));
      low = _mm256_mullo_epi16(product, w);
      high = _mm256_mulhi_epi16(product, w);
    }
    StepSixteen<kMode, false>(row, round, i, _mm256_unpacklo_epi16(low, high),
                              _mm256_unpackhi_epi16(low, high), UnpackedLow(), UnpackedHigh());
  }
  UpdateDenseEdges(row, error, input, i, row.size);
}

// Largest |gradient| above which weight * gradient may need saturation.
bool ProductsMayOverflow(const int32_t* gradient, int32_t size) {
  const __m256i safe = _mm256_set1_epi32(0x7fffffff / 128);
  __m256i above = _mm256_setzero_si256();
  int32_t i = 0;
  for (; i + 8 <= size; i += 8) {
    above =
        _mm256_or_si256(above, _mm256_cmpgt_epi32(_mm256_abs_epi32(LoadWords(gradient + i)), safe));
  }
  return !_mm256_testz_si256(above, above);
}

}  // namespace

#define TFLM_TRAIN_BY_ROUNDING(mode, call)      \
  switch (mode) {                               \
    case Rounding::kHalfUp:                     \
      return call(Rounding::kHalfUp);           \
    case Rounding::kHalfAway:                   \
      return call(Rounding::kHalfAway);         \
    case Rounding::kPseudoStochastic:           \
      return call(Rounding::kPseudoStochastic); \
    case Rounding::kStochastic:                 \
      return call(Rounding::kStochastic);       \
    case Rounding::kTflm:                       \
      return call(Rounding::kTflm);             \
  }

void Requantize8(const int32_t* values, int32_t size, const Requantize& params, int32_t index,
                 int8_t* output) {
#define TFLM_TRAIN_CALL(mode) RequantizeLanes<mode>(values, size, params, index, output)
  TFLM_TRAIN_BY_ROUNDING(params.rounding, TFLM_TRAIN_CALL)
#undef TFLM_TRAIN_CALL
}

void UpdateRow(const EdgeRow& row, const int32_t* gradient) {
  if (row.scores != nullptr && ProductsMayOverflow(gradient, row.size)) {
    return UpdateEdges(row, gradient, 0, row.size);
  }
#define TFLM_TRAIN_CALL(mode) UpdateRowLanes<mode>(row, gradient)
  TFLM_TRAIN_BY_ROUNDING(row.params.rounding, TFLM_TRAIN_CALL)
#undef TFLM_TRAIN_CALL
}

void UpdateDenseRow(const EdgeRow& row, int32_t error, const int8_t* input) {
#define TFLM_TRAIN_CALL(mode) UpdateDenseRowLanes<mode>(row, error, input)
  TFLM_TRAIN_BY_ROUNDING(row.params.rounding, TFLM_TRAIN_CALL)
#undef TFLM_TRAIN_CALL
}

}  // namespace avx2
}  // namespace tflm_train

#include "micro_ops/host/priot_avx2_end.h"

namespace tflm_train {
namespace {

void RequantizeTensor(const int32_t* values, int32_t size, const Requantize& params,
                      int8_t* output) {
  avx2::Requantize8(values, size, params, 0, output);
}

}  // namespace

const PriotKernels* Avx2PriotKernels() {
  static const PriotKernels kernels = {
      "avx2",
      avx2::ConvForward,
      avx2::DenseForward,
      avx2::MaxPoolForward,
      avx2::MaxPoolBackward,
      avx2::ConvBackward,
      avx2::DenseBackward,
      avx2::ConvGradientBegin,
      avx2::ConvGradientRow,
      RequantizeTensor,
      avx2::UpdateRow,
      avx2::UpdateDenseRow,
  };
  return __builtin_cpu_supports("avx2") ? &kernels : nullptr;
}

}  // namespace tflm_train

#else

namespace tflm_train {
const PriotKernels* Avx2PriotKernels() { return nullptr; }
}  // namespace tflm_train

#endif
