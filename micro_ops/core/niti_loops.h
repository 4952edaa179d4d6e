// The loops that the plain and the masked kernels share, as templates over where a weight is read
// from and where an accumulator goes. Private to micro_ops/core.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_NITI_LOOPS_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_NITI_LOOPS_H_

#include <cstdint>

#include "micro_ops/core/niti_layers.h"

namespace tflm_train {

// Sinks: what to do with the accumulator of the element at flat index i.
struct RequantizeSink {
  const Requantize& params;
  int8_t* output;
  void operator()(int32_t index, int32_t accumulator) const {
    output[index] = RequantizeValue(params, accumulator, index);
  }
};
struct AccumulatorSink {
  int32_t* output;
  void operator()(int32_t index, int32_t accumulator) const { output[index] = accumulator; }
};

inline int32_t BiasOf(const int32_t* bias, int32_t channel) {
  return bias == nullptr ? 0 : bias[channel];
}

// The part of a window [start, start + size) that lies inside [0, limit), relative to start.
struct Span {
  int32_t begin, end;
};
inline Span ClipSpan(int32_t start, int32_t size, int32_t limit) {
  return {start < 0 ? -start : 0, start + size > limit ? limit - start : size};
}

// One output channel; `row` holds its kh * kw * in weights.
template <class Sink>
inline void ConvForwardChannel(const ConvShape& s, const int8_t* input, const int8_t* row,
                               int32_t bias, int32_t channel, const Sink& sink) {
  for (int32_t oy = 0; oy < s.out_height; ++oy) {
    const int32_t top = oy * s.stride_height - s.pad_top;
    const Span ys = ClipSpan(top, s.kernel_height, s.in_height);
    for (int32_t ox = 0; ox < s.out_width; ++ox) {
      const int32_t left = ox * s.stride_width - s.pad_left;
      const Span xs = ClipSpan(left, s.kernel_width, s.in_width);
      const int32_t run = (xs.end - xs.begin) * s.in_channels;
      int32_t sum = bias;
      for (int32_t ky = ys.begin; ky < ys.end; ++ky) {
        const int8_t* x = input + ((top + ky) * s.in_width + left + xs.begin) * s.in_channels;
        const int8_t* w = row + (ky * s.kernel_width + xs.begin) * s.in_channels;
        for (int32_t i = 0; i < run; ++i) sum += x[i] * w[i];
      }
      sink((oy * s.out_width + ox) * s.out_channels + channel, sum);
    }
  }
}

template <class Sink>
inline void DepthwiseForward(const ConvShape& s, const int8_t* input, const int8_t* weights,
                             const int32_t* bias, const Sink& sink) {
  const int32_t multiplier = s.out_channels / s.in_channels;
  for (int32_t oy = 0; oy < s.out_height; ++oy) {
    const int32_t top = oy * s.stride_height - s.pad_top;
    const Span ys = ClipSpan(top, s.kernel_height, s.in_height);
    for (int32_t ox = 0; ox < s.out_width; ++ox) {
      const int32_t left = ox * s.stride_width - s.pad_left;
      const Span xs = ClipSpan(left, s.kernel_width, s.in_width);
      for (int32_t c = 0; c < s.out_channels; ++c) {
        int32_t sum = BiasOf(bias, c);
        for (int32_t ky = ys.begin; ky < ys.end; ++ky) {
          for (int32_t kx = xs.begin; kx < xs.end; ++kx) {
            sum += input[((top + ky) * s.in_width + left + kx) * s.in_channels + c / multiplier] *
                   weights[(ky * s.kernel_width + kx) * s.out_channels + c];
          }
        }
        sink((oy * s.out_width + ox) * s.out_channels + c, sum);
      }
    }
  }
}

// W^T error, one input position at a time: sums over the windows that cover it. `weights` is
// anything with operator[] over the flat edge index.
template <class Weights, class Sink>
inline void ConvBackward(const ConvShape& s, const int8_t* error_out, const Weights& weights,
                         int32_t* accumulators, const Sink& sink) {
  const int32_t row_size = ConvRowSize(s);
  for (int32_t iy = 0; iy < s.in_height; ++iy) {
    for (int32_t ix = 0; ix < s.in_width; ++ix) {
      for (int32_t c = 0; c < s.in_channels; ++c) accumulators[c] = 0;
      for (int32_t ky = 0; ky < s.kernel_height; ++ky) {
        const int32_t sy = iy + s.pad_top - ky;
        if (sy < 0 || sy % s.stride_height != 0 || sy / s.stride_height >= s.out_height) continue;
        for (int32_t kx = 0; kx < s.kernel_width; ++kx) {
          const int32_t sx = ix + s.pad_left - kx;
          if (sx < 0 || sx % s.stride_width != 0 || sx / s.stride_width >= s.out_width) continue;
          const int8_t* error =
              error_out +
              (sy / s.stride_height * s.out_width + sx / s.stride_width) * s.out_channels;
          int32_t edge = (ky * s.kernel_width + kx) * s.in_channels;
          for (int32_t o = 0; o < s.out_channels; ++o, edge += row_size) {
            const int32_t e = error[o];
            if (e == 0) continue;
            for (int32_t c = 0; c < s.in_channels; ++c) accumulators[c] += e * weights[edge + c];
          }
        }
      }
      const int32_t base = (iy * s.in_width + ix) * s.in_channels;
      for (int32_t c = 0; c < s.in_channels; ++c) sink(base + c, accumulators[c]);
    }
  }
}

template <class Weights, class Sink>
inline void DepthwiseBackward(const ConvShape& s, const int8_t* error_out, const Weights& weights,
                              const Sink& sink) {
  const int32_t multiplier = s.out_channels / s.in_channels;
  for (int32_t iy = 0; iy < s.in_height; ++iy) {
    for (int32_t ix = 0; ix < s.in_width; ++ix) {
      for (int32_t c = 0; c < s.in_channels; ++c) {
        int32_t sum = 0;
        for (int32_t ky = 0; ky < s.kernel_height; ++ky) {
          const int32_t sy = iy + s.pad_top - ky;
          if (sy < 0 || sy % s.stride_height != 0 || sy / s.stride_height >= s.out_height) continue;
          for (int32_t kx = 0; kx < s.kernel_width; ++kx) {
            const int32_t sx = ix + s.pad_left - kx;
            if (sx < 0 || sx % s.stride_width != 0 || sx / s.stride_width >= s.out_width) continue;
            const int32_t position = sy / s.stride_height * s.out_width + sx / s.stride_width;
            for (int32_t m = 0; m < multiplier; ++m) {
              const int32_t o = c * multiplier + m;
              sum += error_out[position * s.out_channels + o] *
                     weights[(ky * s.kernel_width + kx) * s.out_channels + o];
            }
          }
        }
        sink((iy * s.in_width + ix) * s.in_channels + c, sum);
      }
    }
  }
}

template <class Weights, class Sink>
inline void DenseBackward(const DenseShape& s, const int8_t* error_out, const Weights& weights,
                          const Sink& sink) {
  for (int32_t i = 0; i < s.inputs; ++i) {
    int32_t sum = 0;
    for (int32_t o = 0, edge = i; o < s.outputs; ++o, edge += s.inputs) {
      if (error_out[o] != 0) sum += error_out[o] * weights[edge];
    }
    sink(i, sum);
  }
}

inline int32_t DenseDot(const int8_t* input, const int8_t* row, int32_t size) {
  int32_t sum = 0;
  for (int32_t i = 0; i < size; ++i) sum += input[i] * row[i];
  return sum;
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_NITI_LOOPS_H_
