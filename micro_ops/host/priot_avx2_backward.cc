// AVX2 backward layers and weight gradients: two nonzero errors at a time, zero errors never cost
// anything.
#include "micro_ops/host/priot_avx2.h"

#ifdef TFLM_TRAIN_HAVE_AVX2
#include <immintrin.h>

#include <cstring>

namespace tflm_train {
namespace {

// Empties the list and makes room for `most` errors and one that makes their number even.
void Begin(ErrorList* list, int32_t most) {
  if (list->memory.size() <= static_cast<size_t>(most)) list->memory.resize(most + 1);
  list->begin = list->end = list->memory.data();
}

void PrepareLists(ConvWork* work, int32_t channels) {
  if (work->by_channel.size() < static_cast<size_t>(channels) + 1) {
    work->by_channel.resize(channels + 1);
  }
}

int32_t* ClearSums(ConvWork* work, size_t size) {
  work->sums.assign(size + kSlack, 0);
  return work->sums.data();
}

}  // namespace
}  // namespace tflm_train

#include "micro_ops/host/priot_avx2_begin.h"
#include "micro_ops/host/priot_avx2_vectors.h"

namespace tflm_train {
namespace avx2 {
namespace {

inline void AddError(ErrorList* list, int32_t place, int32_t error) {
  *list->end++ = PlacedError{place, error};
}

// An even number of entries, so that pairs need no tail.
inline void MakeEven(ErrorList* list) {
  if ((list->end - list->begin) % 2 != 0) AddError(list, list->end[-1].place, 0);
}

// Calls visit(i) for each nonzero byte.
template <class Visit>
inline void VisitNonzero(const int8_t* values, int32_t size, const Visit& visit) {
  int32_t i = 0;
  for (; i + 32 <= size; i += 32) {
    const __m256i zero = _mm256_cmpeq_epi8(Load32(values + i), _mm256_setzero_si256());
    unsigned bits = ~static_cast<unsigned>(_mm256_movemask_epi8(zero));
    for (; bits != 0; bits &= bits - 1) visit(i + __builtin_ctz(bits));
  }
  for (; i + 16 <= size; i += 16) {
    const __m128i zero = _mm_cmpeq_epi8(Load16(values + i), _mm_setzero_si128());
    unsigned bits = ~static_cast<unsigned>(_mm_movemask_epi8(zero)) & 0xffffu;
    for (; bits != 0; bits &= bits - 1) visit(i + __builtin_ctz(bits));
  }
  for (; i < size; ++i) {
    if (values[i] != 0) visit(i);
  }
}

// sums[0 .. 16 * kVectors / 2) += sum of error * row over the list; rows start at
// rows + place * stride.
template <int kVectors>
inline void AddRows(const ErrorList& list, const int8_t* rows, size_t stride, int32_t* sums) {
  __m256i total[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = LoadWords(sums + 8 * v);
  for (const PlacedError* e = list.begin; e != list.end; e += 2) {
    const int8_t* a = rows + e[0].place * stride;
    const int8_t* b = rows + e[1].place * stride;
    const __m256i errors = ErrorPair(e[0].error, e[1].error);
    for (int v = 0; v < kVectors; v += 2) {
      const __m128i x = Load16(a + 8 * v), y = Load16(b + 8 * v);
      total[v] = _mm256_add_epi32(total[v], PairProducts(_mm_unpacklo_epi8(x, y), errors));
      total[v + 1] = _mm256_add_epi32(total[v + 1], PairProducts(_mm_unpackhi_epi8(x, y), errors));
    }
  }
  for (int v = 0; v < kVectors; ++v) StoreWords(sums + 8 * v, total[v]);
}

// Any number of sums, exactly.
void AddRowsExactly(const ErrorList& list, const int8_t* rows, size_t stride, int32_t size,
                    int32_t* sums) {
  int32_t i = 0;
  for (; i + 48 <= size; i += 48) AddRows<6>(list, rows + i, stride, sums + i);
  for (; i + 16 <= size; i += 16) AddRows<2>(list, rows + i, stride, sums + i);
  if (i == size) return;
  for (const PlacedError* e = list.begin; e != list.end; ++e) {
    const int8_t* row = rows + e->place * stride;
    for (int32_t k = i; k < size; ++k) sums[k] += e->error * row[k];
  }
}

}  // namespace

void MaxPoolBackward(const PoolShape& s, const int8_t* error, const uint8_t* argmax,
                     int8_t* error_in) {
  const int32_t line = s.in_width * s.channels;
  std::memset(error_in, 0, static_cast<size_t>(s.in_height) * line);
  int32_t offsets[256];  // Of the places of a window from its corner.
  for (int32_t place = 0; place < s.filter_height * s.filter_width; ++place) {
    const int32_t y = place / s.filter_width;
    offsets[place] = y * line + (place - y * s.filter_width) * s.channels;
  }
  for (int32_t oy = 0; oy < s.out_height; ++oy) {
    for (int32_t ox = 0; ox < s.out_width; ++ox) {
      const int32_t base = (oy * s.out_width + ox) * s.channels;
      const int32_t corner = (oy * s.stride_height - s.pad_top) * line +
                             (ox * s.stride_width - s.pad_left) * s.channels;
      VisitNonzero(error + base, s.channels, [&](int32_t c) {
        int8_t* to = error_in + corner + offsets[argmax[base + c]] + c;
        *to = static_cast<int8_t>(Clamp(*to + error[base + c], -127, 127));
      });
    }
  }
}

void ConvBackward(const ConvShape& s, ConvWork* work, const int8_t* error, const int8_t* weights,
                  const Requantize* requantize, int32_t* accumulators, int8_t* error_in) {
  PrepareLists(work, s.out_channels);
  ErrorList& list = work->by_channel[s.out_channels];
  Begin(&list, s.out_channels);
  const int32_t span = (s.out_width - 1) * s.stride_width + s.kernel_width;
  const int32_t width = span > s.in_width + s.pad_left ? span : s.in_width + s.pad_left;
  const int32_t rise = (s.out_height - 1) * s.stride_height + s.kernel_height;
  const int32_t height = rise > s.in_height + s.pad_top ? rise : s.in_height + s.pad_top;
  int32_t* sums = ClearSums(work, static_cast<size_t>(height) * width * s.in_channels);
  const size_t row = ConvRowSize(s);
  const int32_t run = s.kernel_width * s.in_channels;
  for (int32_t oy = 0; oy < s.out_height; ++oy) {
    for (int32_t ox = 0; ox < s.out_width; ++ox) {
      const int8_t* here = error + (oy * s.out_width + ox) * s.out_channels;
      list.end = list.begin;
      VisitNonzero(here, s.out_channels, [&](int32_t o) { AddError(&list, o, here[o]); });
      if (list.end == list.begin) continue;
      MakeEven(&list);
      for (int32_t ky = 0; ky < s.kernel_height; ++ky) {
        AddRowsExactly(
            list, weights + ky * run, row, run,
            sums + ((oy * s.stride_height + ky) * width + ox * s.stride_width) * s.in_channels);
      }
    }
  }
  const int32_t line = s.in_width * s.in_channels;
  for (int32_t y = 0; y < s.in_height; ++y) {
    const int32_t* from = sums + ((y + s.pad_top) * width + s.pad_left) * s.in_channels;
    if (requantize != nullptr) {
      Requantize8(from, line, *requantize, y * line, error_in + y * line);
    } else {
      std::memcpy(accumulators + y * line, from, sizeof(int32_t) * line);
    }
  }
}

void DenseBackward(const DenseShape& s, const int8_t* error, const int8_t* weights,
                   const Requantize* requantize, int32_t* accumulators, int8_t* error_in) {
  ErrorList list;
  Begin(&list, s.outputs);
  VisitNonzero(error, s.outputs, [&](int32_t o) { AddError(&list, o, error[o]); });
  std::memset(accumulators, 0, sizeof(int32_t) * s.inputs);
  if (list.end != list.begin) {
    MakeEven(&list);
    AddRowsExactly(list, weights, s.inputs, s.inputs, accumulators);
  }
  if (requantize != nullptr) Requantize8(accumulators, s.inputs, *requantize, 0, error_in);
}

void ConvGradientBegin(const ConvShape& s, ConvWork* work, const int8_t* error) {
  PrepareLists(work, s.out_channels);
  const int32_t positions = s.out_height * s.out_width;
  ErrorList* lists = work->by_channel.data();
  for (int32_t o = 0; o < s.out_channels; ++o) Begin(&lists[o], positions);
  if ((s.out_channels & (s.out_channels - 1)) == 0) {
    const int bits = __builtin_ctz(static_cast<unsigned>(s.out_channels));
    const int32_t mask = s.out_channels - 1;
    VisitNonzero(error, positions * s.out_channels,
                 [&](int32_t i) { AddError(&lists[i & mask], i >> bits, error[i]); });
  } else {
    for (int32_t p = 0; p < positions; ++p) {
      const int8_t* here = error + p * s.out_channels;
      VisitNonzero(here, s.out_channels, [&](int32_t o) { AddError(&lists[o], p, here[o]); });
    }
  }
}

bool ConvGradientRow(const ConvShape& s, ConvWork* work, const int8_t*, const int8_t*,
                     int32_t channel, int32_t* row) {
  ErrorList& list = work->by_channel[channel];
  if (list.end == list.begin) return false;
  MakeEven(&list);
  // Rows of patches are whole vectors with zeros at their ends; so is the scratch row.
  const int32_t size = (ConvRowSize(s) + 15) / 16 * 16;
  std::memset(row, 0, sizeof(int32_t) * size);
  AddRowsExactly(list, work->columns.data(), size, size, row);
  return true;
}

}  // namespace avx2
}  // namespace tflm_train

#include "micro_ops/host/priot_avx2_end.h"

#endif
