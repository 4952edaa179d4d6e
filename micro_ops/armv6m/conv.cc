// Convolutions of a training step on Cortex-M0+: lists of nonzero factors against lanes of four
// values (lanes.h). The scratch holds the lanes first, then the list.
#include <cstring>

#include "micro_ops/armv6m/lanes.h"
#include "micro_ops/armv6m/masks.h"
#include "micro_ops/armv6m/rounding.h"
#include "micro_ops/armv6m/update.h"
#include "micro_ops/core/niti_loops.h"
#include "micro_ops/trainer/train_kernels.h"

namespace tflm_train {
namespace {

int32_t* AsWords(void* scratch) { return static_cast<int32_t*>(scratch); }

// Words of a row of lanes.
int32_t RowWords(int32_t channels) { return LaneChannels(channels) / 2; }

LaneEntry* ListBehind(void* scratch, int32_t words) {
  return reinterpret_cast<LaneEntry*>(AsWords(scratch) + words);
}

// Room for the sums of one position behind a list of at most `entries`.
int32_t* SumsBehind(LaneEntry* list, int32_t entries) {
  return reinterpret_cast<int32_t*>(list + entries + 4);
}

// Lanes [edge of a row][output channel]; `rows` is room for two rows of weights.
void PackByOutput(const ConvShape& s, const int8_t* weights, const ScoreView* scores, int8_t* rows,
                  uint32_t* lanes) {
  const int32_t size = ConvRowSize(s), words = RowWords(s.out_channels);
  int32_t rank = 0;
  for (int32_t o = 0; o < LaneChannels(s.out_channels); o += 2) {
    uint32_t* to = lanes + o / 2;
    if (o >= s.out_channels) {
      for (int32_t i = 0; i < size; ++i, to += words) *to = 0;
      continue;
    }
    const int8_t* a = MaskedRow(scores, o, size, weights, &rank, rows);
    if (o + 1 == s.out_channels) {
      for (int32_t i = 0; i < size; ++i, to += words) *to = Lanes(a[i], 0);
      continue;
    }
    int8_t* second = rows + ((size + 3) & ~3);
    const int8_t* b = MaskedRow(scores, o + 1, size, weights, &rank, second);
    for (int32_t i = 0; i < size; ++i, to += words) *to = Lanes(a[i], b[i]);
  }
}

// Lanes [output channel][tap][input channel].
void PackByInput(const ConvShape& s, const int8_t* weights, const ScoreView* scores, int8_t* row,
                 uint32_t* lanes) {
  const int32_t size = ConvRowSize(s), taps = s.kernel_height * s.kernel_width;
  const int32_t words = RowWords(s.in_channels);
  int32_t rank = 0;
  for (int32_t o = 0; o < s.out_channels; ++o) {
    const int8_t* w = MaskedRow(scores, o, size, weights, &rank, row);
    for (int32_t tap = 0; tap < taps; ++tap, w += s.in_channels, lanes += words) {
      int32_t c = 0;
      for (; c + 1 < s.in_channels; c += 2) lanes[c / 2] = Lanes(w[c], w[c + 1]);
      if (c < s.in_channels) {
        lanes[c / 2] = Lanes(w[c], 0);
        c += 2;
      }
      for (; c < LaneChannels(s.in_channels); c += 2) lanes[c / 2] = 0;
    }
  }
}

// The nonzero values of x, each with its row of lanes.
int32_t AppendNonzero(const int8_t* x, int32_t size, const uint32_t* base, int32_t row,
                      int32_t step, LaneEntry* list) {
  int32_t count = 0, i = 0;
  if ((reinterpret_cast<uintptr_t>(x) & 3u) == 0) {
    for (; i + 4 <= size; i += 4, row += 4 * step) {
      uint32_t word;
      memcpy(&word, __builtin_assume_aligned(x + i, 4), 4);
      if (word == 0) continue;
      for (int32_t k = 0; k < 4; ++k) {
        if (x[i + k] != 0) list[count++] = MakeEntry(x[i + k], base, row + k * step);
      }
    }
  }
  for (; i < size; ++i, row += step) {
    if (x[i] != 0) list[count++] = MakeEntry(x[i], base, row);
  }
  return count;
}

void ForwardAll(const ConvShape& s, const int8_t* input, const int32_t* bias, const uint32_t* lanes,
                LaneEntry* list, const Requantizer& round, int8_t* output) {
  const int32_t words = RowWords(s.out_channels);
  int32_t* sums = SumsBehind(list, ConvRowSize(s));

  int32_t index = 0;
  for (int32_t oy = 0; oy < s.out_height; ++oy) {
    const int32_t top = oy * s.stride_height - s.pad_top;
    const Span ys = ClipSpan(top, s.kernel_height, s.in_height);
    for (int32_t ox = 0; ox < s.out_width; ++ox) {
      const int32_t left = ox * s.stride_width - s.pad_left;
      const Span xs = ClipSpan(left, s.kernel_width, s.in_width);
      const int32_t run = (xs.end - xs.begin) * s.in_channels;
      int32_t count = 0;
      for (int32_t ky = ys.begin; ky < ys.end; ++ky) {
        const int8_t* x = input + ((top + ky) * s.in_width + left + xs.begin) * s.in_channels;
        const int32_t row = (ky * s.kernel_width + xs.begin) * s.in_channels;
        count += AppendNonzero(x, run, lanes, row * words, words, list + count);
      }
      PadList(list, count, lanes);
      for (int32_t o = 0; o < s.out_channels; ++o) sums[o] = BiasOf(bias, o);
      LaneSums(list, count, 0, sums, words / 2, lanes);
      round.Block(sums, s.out_channels, index, output + index);
      index += s.out_channels;
    }
  }
}

void BackwardAll(const ConvShape& s, const int8_t* error_out, const int8_t* relu_output,
                 const uint32_t* lanes, LaneEntry* list, const Requantizer& round,
                 int8_t* error_in) {
  const int32_t words = RowWords(s.in_channels);
  const int32_t step = s.kernel_height * s.kernel_width * words;
  int32_t* sums = SumsBehind(list, s.kernel_height * s.kernel_width * s.out_channels);
  int32_t index = 0;

  for (int32_t iy = 0; iy < s.in_height; ++iy) {
    for (int32_t ix = 0; ix < s.in_width; ++ix) {
      int32_t count = 0;
      for (int32_t ky = 0; ky < s.kernel_height; ++ky) {
        const int32_t sy = iy + s.pad_top - ky;
        if (sy < 0 || sy % s.stride_height != 0 || sy / s.stride_height >= s.out_height) continue;
        for (int32_t kx = 0; kx < s.kernel_width; ++kx) {
          const int32_t sx = ix + s.pad_left - kx;
          if (sx < 0 || sx % s.stride_width != 0 || sx / s.stride_width >= s.out_width) continue;
          const int32_t place = sy / s.stride_height * s.out_width + sx / s.stride_width;
          count += AppendNonzero(error_out + place * s.out_channels, s.out_channels, lanes,
                                 (ky * s.kernel_width + kx) * words, step, list + count);
        }
      }
      PadList(list, count, lanes);
      const int32_t end = index + s.in_channels;
      if (count == 0) {
        for (; index < end; ++index) error_in[index] = 0;
        continue;
      }
      for (int32_t c = 0; c < s.in_channels; ++c) sums[c] = 0;
      LaneSums(list, count, 0, sums, words / 2, lanes);
      round.Block(sums, s.in_channels, index, error_in + index);
      if (relu_output == nullptr) {
        index = end;
        continue;
      }
      for (; index < end; ++index) {
        if (relu_output[index] <= 0) error_in[index] = 0;
      }
    }
  }
}

// The input with its border as lanes [row][column][channel].
struct PaddedLanes {
  int32_t width;  // pixels
  int32_t words;  // of a pixel
};
PaddedLanes PackInput(const ConvShape& s, const int8_t* input, uint32_t* lanes) {
  const int32_t height = (s.out_height - 1) * s.stride_height + s.kernel_height;
  const int32_t width = (s.out_width - 1) * s.stride_width + s.kernel_width;
  const int32_t words = RowWords(s.in_channels);
  for (int32_t y = 0; y < height; ++y) {
    const int32_t iy = y - s.pad_top;
    for (int32_t x = 0; x < width; ++x, lanes += words) {
      const int32_t ix = x - s.pad_left;
      if (iy < 0 || iy >= s.in_height || ix < 0 || ix >= s.in_width) {
        for (int32_t k = 0; k < words; ++k) lanes[k] = 0;
        continue;
      }
      const int8_t* from = input + (iy * s.in_width + ix) * s.in_channels;
      for (int32_t k = 0; k < words; ++k, from += 2) lanes[k] = Lanes(from[0], from[1]);
    }
  }
  return {width, words};
}

// Calls visit(channel, gradient row or null when all its errors are zero) for every channel.
template <class Visit>
void ForEachGradient(const ConvShape& s, const int8_t* input, const int8_t* error, void* scratch,
                     const Visit& visit) {
  const int32_t size = ConvRowSize(s);
  if (s.in_channels % 4 != 0) {
    int32_t* row = AsWords(scratch);
    for (int32_t o = 0; o < s.out_channels; ++o) {
      visit(o, NitiConvGradientRow(s, input, error, o, row) ? row : nullptr);
    }
    return;
  }
  uint32_t* lanes = static_cast<uint32_t*>(scratch);
  const PaddedLanes padded = PackInput(s, input, lanes);
  const int32_t height = (s.out_height - 1) * s.stride_height + s.kernel_height;
  LaneEntry* list = ListBehind(scratch, height * padded.width * padded.words);
  const int32_t positions = s.out_height * s.out_width;
  int32_t* row = reinterpret_cast<int32_t*>(list + positions + 4);
  for (int32_t o = 0; o < s.out_channels; ++o) {
    int32_t count = 0;
    const int8_t* e = error + o;
    for (int32_t oy = 0; oy < s.out_height; ++oy) {
      int32_t at = oy * s.stride_height * padded.width * padded.words;
      for (int32_t ox = 0; ox < s.out_width; ++ox, e += s.out_channels) {
        if (*e != 0) list[count++] = MakeEntry(*e, lanes, at);
        at += s.stride_width * padded.words;
      }
    }
    if (count == 0) {
      visit(o, nullptr);
      continue;
    }
    PadList(list, count, lanes);
    for (int32_t i = 0; i < size; ++i) row[i] = 0;
    int32_t* sums = row;
    for (int32_t ky = 0; ky < s.kernel_height; ++ky) {
      for (int32_t kx = 0; kx < s.kernel_width; ++kx) {
        const int32_t offset = (ky * padded.width + kx) * padded.words;
        LaneSums(list, count, offset, sums, s.in_channels / 4, lanes);
        sums += s.in_channels;
      }
    }
    visit(o, row);
  }
}

}  // namespace

void TrainConvForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                      const int32_t* bias, const ScoreView* scores, const Requantize& requantize,
                      void* scratch, int8_t* output) {
  uint32_t* lanes = static_cast<uint32_t*>(scratch);
  LaneEntry* list = ListBehind(scratch, ConvRowSize(shape) * RowWords(shape.out_channels));
  PackByOutput(shape, weights, scores, reinterpret_cast<int8_t*>(list), lanes);
  ForwardAll(shape, input, bias, lanes, list, Requantizer(requantize), output);
}

void TrainConvBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                       const ScoreView* scores, const int8_t* relu_output,
                       const Requantize& requantize, void* scratch, int8_t* error_in) {
  uint32_t* lanes = static_cast<uint32_t*>(scratch);
  const int32_t rows = shape.out_channels * shape.kernel_height * shape.kernel_width;
  LaneEntry* list = ListBehind(scratch, rows * RowWords(shape.in_channels));
  PackByInput(shape, weights, scores, reinterpret_cast<int8_t*>(list), lanes);
  BackwardAll(shape, error_out, relu_output, lanes, list, Requantizer(requantize), error_in);
}

void TrainConvScores(const ConvShape& shape, const int8_t* input, const int8_t* error,
                     const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                     void* scratch, ScoreCounts* counts) {
  const int32_t size = ConvRowSize(shape);
  const DeadZone zone = FindDeadZone(params);
  int32_t rank = 0;
  ForEachGradient(shape, input, error, scratch, [&](int32_t o, const int32_t* row) {
    if (row == nullptr) {
      SkipScoredFast(scores, o, size, &rank);
    } else {
      const bool bounded = shape.out_height * shape.out_width <= kBoundedPositions;
      UpdateScoreRow(scores, o, size, weights + o * size, row, params, zone, bounded, &rank,
                     counts);
    }
  });
}

void TrainConvWeights(const ConvShape& shape, const int8_t* input, const int8_t* error,
                      const UpdateParams& params, void* scratch, int8_t* weights) {
  const int32_t size = ConvRowSize(shape);
  const DeadZone zone = FindDeadZone(params);
  ForEachGradient(shape, input, error, scratch, [&](int32_t o, const int32_t* row) {
    if (row == nullptr) return;
    int8_t* w = weights + o * size;
    for (int32_t i = 0; i < size; ++i) {
      if (zone.Holds(row[i])) continue;
      const int32_t step = UpdateStep(params, row[i], o * size + i);
      w[i] = static_cast<int8_t>(Clamp(w[i] - step, -127, 127));
    }
  });
}

}  // namespace tflm_train
