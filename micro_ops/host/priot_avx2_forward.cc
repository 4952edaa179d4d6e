// AVX2 forward layers.
//
// A convolution copies its patches into rows and multiplies them with weights packed four edges by
// eight channels. Two int8 products summed in int16 cannot overflow: weights are within +-127 and
// one factor of vpmaddubsw is |input| <= 128.
#include "micro_ops/host/priot_avx2.h"

#ifdef TFLM_TRAIN_HAVE_AVX2
#include <immintrin.h>

#include <cstring>

namespace tflm_train {
namespace {

int32_t RoundUp(int32_t value, int32_t to) { return (value + to - 1) / to * to; }

void PrepareForward(const ConvShape& s, ConvWork* work, int32_t pad_height, int32_t pad_width) {
  const size_t row = RoundUp(ConvRowSize(s), 16);
  const size_t padded = static_cast<size_t>(pad_height) * pad_width * s.in_channels + kSlack;
  if (work->padded.size() < padded) work->padded.assign(padded, 0);
  const size_t columns = row * s.out_height * s.out_width + kSlack;
  if (work->columns.size() < columns) work->columns.assign(columns, 0);
  const size_t channels = RoundUp(s.out_channels, 16);
  if (!work->packed_valid) work->packed.assign(row * channels + kSlack, 0);
}

// Copies weights [out][edge] to [edge / 4][out][4].
void Pack(const ConvShape& s, const int8_t* weights, ConvWork* work) {
  const int32_t row = ConvRowSize(s), channels = RoundUp(s.out_channels, 16);
  for (int32_t o = 0; o < s.out_channels; ++o) {
    const int8_t* from = weights + static_cast<size_t>(o) * row;
    int8_t* to = work->packed.data() + o * 4;
    int32_t k = 0;
    for (; k + 4 <= row; k += 4, to += channels * 4) std::memcpy(to, from + k, 4);
    for (int32_t rest = k; rest < row; ++rest) to[rest - k] = from[rest];
  }
  work->packed_valid = true;
}

}  // namespace
}  // namespace tflm_train

#include "micro_ops/host/priot_avx2_begin.h"
#include "micro_ops/host/priot_avx2_vectors.h"

namespace tflm_train {
namespace avx2 {
namespace {

// Copies `run` bytes in whole vectors; what is written beyond is overwritten later.
inline void CopyRun(const int8_t* from, int32_t run, int8_t* to) {
  if (run <= 4) {
    std::memcpy(to, from, 4);
    return;
  }
  for (int32_t i = 0; i < run; i += 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), Load16(from + i));
  }
}

void Columns(const ConvShape& s, const int8_t* input, ConvWork* work) {
  const int32_t pad_width = (s.out_width - 1) * s.stride_width + s.kernel_width;
  const int32_t pad_height = (s.out_height - 1) * s.stride_height + s.kernel_height;
  const int8_t* source = input;
  int32_t width = s.in_width;
  if (s.pad_top != 0 || s.pad_left != 0 || pad_width > s.in_width || pad_height > s.in_height) {
    const int32_t use = s.in_width < pad_width - s.pad_left ? s.in_width : pad_width - s.pad_left;
    for (int32_t y = 0; y < s.in_height && y + s.pad_top < pad_height; ++y) {
      std::memcpy(work->padded.data() + ((y + s.pad_top) * pad_width + s.pad_left) * s.in_channels,
                  input + y * s.in_width * s.in_channels, static_cast<size_t>(use) * s.in_channels);
    }
    source = work->padded.data();
    width = pad_width;
  }
  const int32_t row = ConvRowSize(s), stride = (row + 15) / 16 * 16;
  const int32_t run = s.kernel_width * s.in_channels;
  int8_t* to = work->columns.data();
  for (int32_t oy = 0; oy < s.out_height; ++oy) {
    for (int32_t ox = 0; ox < s.out_width; ++ox, to += stride) {
      const int8_t* from =
          source + (oy * s.stride_height * width + ox * s.stride_width) * s.in_channels;
      for (int32_t ky = 0; ky < s.kernel_height; ++ky) {
        CopyRun(from + ky * width * s.in_channels, run, to + ky * run);
      }
      if (stride != row) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + row), _mm_setzero_si128());
      }
    }
  }
}

template <bool kNonNegative>
inline __m256i Quads(__m256i sum, __m256i x, __m256i w) {
  const __m256i pairs = kNonNegative
                            ? _mm256_maddubs_epi16(x, w)
                            : _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(w, x));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// kRows positions by 16 channels.
template <bool kNonNegative, int kRows>
inline void Tile(const int8_t* columns, int32_t stride, int32_t quads, const int8_t* packed,
                 int32_t channels, const int32_t* bias, int32_t* out) {
  __m256i sums[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    sums[r][0] = LoadWords(bias);
    sums[r][1] = LoadWords(bias + 8);
  }
  for (int32_t k = 0; k < quads; ++k) {
    const __m256i w0 = Load32(packed + k * channels * 4);
    const __m256i w1 = Load32(packed + k * channels * 4 + 32);
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, columns + r * stride + 4 * k, 4);
      const __m256i x = _mm256_set1_epi32(four);
      sums[r][0] = Quads<kNonNegative>(sums[r][0], x, w0);
      sums[r][1] = Quads<kNonNegative>(sums[r][1], x, w1);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    StoreWords(out + r * channels, sums[r][0]);
    StoreWords(out + r * channels + 8, sums[r][1]);
  }
}

template <bool kNonNegative>
void Product(const ConvShape& s, const ConvWork& work, const int32_t* bias,
             const Requantize* requantize, int32_t* accumulators, int8_t* output) {
  constexpr int32_t kRows = 4;
  constexpr int32_t kMaxChannels = 2048;
  // Sums of a block of positions: few calls of the requantiser, all of it in the first-level cache
  // for usual channel counts.
  alignas(32) int32_t tile[kRows * kMaxChannels];
  alignas(32) int32_t start[kMaxChannels];
  const int32_t row = ConvRowSize(s), stride = (row + 15) / 16 * 16, quads = (row + 3) / 4;
  const int32_t channels = (s.out_channels + 15) / 16 * 16;
  const int32_t positions = s.out_height * s.out_width;
  int32_t block = 2048 / channels / kRows * kRows;
  if (block < kRows) block = kRows;
  std::memset(start, 0, sizeof(int32_t) * channels);
  if (bias != nullptr) std::memcpy(start, bias, sizeof(int32_t) * s.out_channels);
  for (int32_t p = 0; p < positions; p += block) {
    const int32_t rows = positions - p < block ? positions - p : block;
    const int8_t* columns = work.columns.data() + static_cast<size_t>(p) * stride;
    for (int32_t c = 0; c < channels; c += 16) {
      const int8_t* packed = work.packed.data() + c * 4;
      int32_t r = 0;
      for (; r + kRows <= rows; r += kRows) {
        Tile<kNonNegative, kRows>(columns + static_cast<size_t>(r) * stride, stride, quads, packed,
                                  channels, start + c, tile + r * channels + c);
      }
      for (; r < rows; ++r) {
        Tile<kNonNegative, 1>(columns + static_cast<size_t>(r) * stride, stride, quads, packed,
                              channels, start + c, tile + r * channels + c);
      }
    }
    const int32_t base = p * s.out_channels;
    if (requantize == nullptr) {
      for (int32_t r = 0; r < rows; ++r) {
        std::memcpy(accumulators + base + r * s.out_channels, tile + r * channels,
                    sizeof(int32_t) * s.out_channels);
      }
    } else if (channels == s.out_channels) {
      Requantize8(tile, rows * channels, *requantize, base, output + base);
    } else {
      for (int32_t r = 0; r < rows; ++r) {
        const int32_t first = base + r * s.out_channels;
        Requantize8(tile + r * channels, s.out_channels, *requantize, first, output + first);
      }
    }
  }
}

inline int32_t SumLanes(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(s);
}

// The bytes after the input are zero, so a row may be read over its end.
template <bool kNonNegative>
void DenseSums(const DenseShape& s, const int8_t* input, const int8_t* weights, const int32_t* bias,
               int32_t* sums) {
  for (int32_t o = 0; o < s.outputs; ++o) {
    const int8_t* row = weights + static_cast<size_t>(o) * s.inputs;
    __m256i a = _mm256_setzero_si256(), b = a;
    int32_t i = 0;
    for (; i + 64 <= s.inputs; i += 64) {
      a = Quads<kNonNegative>(a, Load32(input + i), Load32(row + i));
      b = Quads<kNonNegative>(b, Load32(input + i + 32), Load32(row + i + 32));
    }
    for (; i < s.inputs; i += 32) {
      a = Quads<kNonNegative>(a, Load32(input + i), Load32(row + i));
    }
    sums[o] = SumLanes(_mm256_add_epi32(a, b)) + (bias == nullptr ? 0 : bias[o]);
  }
}

}  // namespace

void ConvForward(const ConvShape& s, ConvWork* work, const int8_t* input, bool non_negative,
                 const int8_t* weights, const int32_t* bias, const Requantize* requantize,
                 int32_t* accumulators, int8_t* output) {
  PrepareForward(s, work, (s.out_height - 1) * s.stride_height + s.kernel_height,
                 (s.out_width - 1) * s.stride_width + s.kernel_width);
  if (!work->packed_valid) Pack(s, weights, work);
  Columns(s, input, work);
  if (non_negative) {
    Product<true>(s, *work, bias, requantize, accumulators, output);
  } else {
    Product<false>(s, *work, bias, requantize, accumulators, output);
  }
}

void DenseForward(const DenseShape& s, const int8_t* input, bool non_negative,
                  const int8_t* weights, const int32_t* bias, const Requantize* requantize,
                  int32_t* accumulators, int8_t* output) {
  if (non_negative) {
    DenseSums<true>(s, input, weights, bias, accumulators);
  } else {
    DenseSums<false>(s, input, weights, bias, accumulators);
  }
  if (requantize != nullptr) Requantize8(accumulators, s.outputs, *requantize, 0, output);
}

void MaxPoolForward(const PoolShape& s, const int8_t* input, int8_t* output, uint8_t* argmax) {
  if (s.pad_top != 0 || s.pad_left != 0 || s.channels % 16 != 0 ||
      (s.out_height - 1) * s.stride_height + s.filter_height > s.in_height ||
      (s.out_width - 1) * s.stride_width + s.filter_width > s.in_width) {
    return NitiMaxPoolForward(s, input, output, argmax);
  }
  for (int32_t oy = 0; oy < s.out_height; ++oy) {
    for (int32_t ox = 0; ox < s.out_width; ++ox) {
      const int8_t* window =
          input + (oy * s.stride_height * s.in_width + ox * s.stride_width) * s.channels;
      const int32_t base = (oy * s.out_width + ox) * s.channels;
      for (int32_t c = 0; c < s.channels; c += 16) {
        __m128i best = Load16(window + c);
        __m128i place = _mm_setzero_si128();
        int number = 0;
        for (int32_t ky = 0; ky < s.filter_height; ++ky) {
          for (int32_t kx = 0; kx < s.filter_width; ++kx, ++number) {
            const __m128i v = Load16(window + (ky * s.in_width + kx) * s.channels + c);
            const __m128i more = _mm_cmpgt_epi8(v, best);
            best = _mm_max_epi8(best, v);
            place = _mm_blendv_epi8(place, _mm_set1_epi8(static_cast<char>(number)), more);
          }
        }
        _mm_storeu_si128(reinterpret_cast<__m128i*>(output + base + c), best);
        if (argmax != nullptr) {
          _mm_storeu_si128(reinterpret_cast<__m128i*>(argmax + base + c), place);
        }
      }
    }
  }
}

}  // namespace avx2
}  // namespace tflm_train

#include "micro_ops/host/priot_avx2_end.h"

#endif
