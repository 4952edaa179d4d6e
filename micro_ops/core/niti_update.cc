#include "micro_ops/core/niti_update.h"

#include "micro_ops/core/niti_loops.h"

namespace tflm_train {
namespace {

uint32_t LargestMagnitude(const int32_t* values, int32_t size, uint32_t largest) {
  for (int32_t i = 0; i < size; ++i) {
    const uint32_t m = Magnitude(values[i]);
    if (m > largest) largest = m;
  }
  return largest;
}

}  // namespace

bool NitiConvGradientRow(const ConvShape& s, const int8_t* input, const int8_t* error,
                         int32_t channel, int32_t* row) {
  bool any = false;
  for (int32_t oy = 0; oy < s.out_height; ++oy) {
    const int32_t top = oy * s.stride_height - s.pad_top;
    const Span ys = ClipSpan(top, s.kernel_height, s.in_height);
    for (int32_t ox = 0; ox < s.out_width; ++ox) {
      const int32_t e = error[(oy * s.out_width + ox) * s.out_channels + channel];
      if (e == 0) continue;
      if (!any) {
        any = true;
        for (int32_t i = 0; i < ConvRowSize(s); ++i) row[i] = 0;
      }
      const int32_t left = ox * s.stride_width - s.pad_left;
      const Span xs = ClipSpan(left, s.kernel_width, s.in_width);
      const int32_t run = (xs.end - xs.begin) * s.in_channels;
      for (int32_t ky = ys.begin; ky < ys.end; ++ky) {
        const int8_t* x = input + ((top + ky) * s.in_width + left + xs.begin) * s.in_channels;
        int32_t* sums = row + (ky * s.kernel_width + xs.begin) * s.in_channels;
        for (int32_t i = 0; i < run; ++i) sums[i] += e * x[i];
      }
    }
  }
  return any;
}

bool NitiDepthwiseGradient(const ConvShape& s, const int8_t* input, const int8_t* error,
                           int32_t* row) {
  const int32_t multiplier = s.out_channels / s.in_channels;
  bool any = false;
  for (int32_t i = 0; i < DepthwiseWeightSize(s); ++i) row[i] = 0;
  for (int32_t oy = 0; oy < s.out_height; ++oy) {
    const int32_t top = oy * s.stride_height - s.pad_top;
    const Span ys = ClipSpan(top, s.kernel_height, s.in_height);
    for (int32_t ox = 0; ox < s.out_width; ++ox) {
      const int32_t left = ox * s.stride_width - s.pad_left;
      const Span xs = ClipSpan(left, s.kernel_width, s.in_width);
      for (int32_t o = 0; o < s.out_channels; ++o) {
        const int32_t e = error[(oy * s.out_width + ox) * s.out_channels + o];
        if (e == 0) continue;
        any = true;
        for (int32_t ky = ys.begin; ky < ys.end; ++ky) {
          for (int32_t kx = xs.begin; kx < xs.end; ++kx) {
            row[(ky * s.kernel_width + kx) * s.out_channels + o] +=
                e * input[((top + ky) * s.in_width + left + kx) * s.in_channels + o / multiplier];
          }
        }
      }
    }
  }
  return any;
}

void NitiUpdateRow(const int32_t* gradient, int32_t size, int32_t first_edge,
                   const UpdateParams& params, int8_t* weights) {
  for (int32_t i = 0; i < size; ++i) {
    const int32_t step = UpdateStep(params, gradient[i], first_edge + i);
    weights[i] = static_cast<int8_t>(Clamp(weights[i] - step, -127, 127));
  }
}

void NitiConvUpdate(const ConvShape& shape, const int8_t* input, const int8_t* error,
                    const UpdateParams& params, int32_t* row, int8_t* weights) {
  const int32_t size = ConvRowSize(shape);
  for (int32_t o = 0; o < shape.out_channels; ++o) {
    if (!NitiConvGradientRow(shape, input, error, o, row)) continue;
    NitiUpdateRow(row, size, o * size, params, weights + o * size);
  }
}

void NitiDepthwiseUpdate(const ConvShape& shape, const int8_t* input, const int8_t* error,
                         const UpdateParams& params, int32_t* row, int8_t* weights) {
  if (!NitiDepthwiseGradient(shape, input, error, row)) return;
  NitiUpdateRow(row, DepthwiseWeightSize(shape), 0, params, weights);
}

void NitiDenseUpdate(const DenseShape& shape, const int8_t* input, const int8_t* error,
                     const UpdateParams& params, int8_t* weights) {
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int32_t e = error[o];
    if (e == 0) continue;
    int8_t* w = weights + o * shape.inputs;
    for (int32_t i = 0; i < shape.inputs; ++i) {
      if (input[i] == 0) continue;
      const int32_t step = UpdateStep(params, e * input[i], o * shape.inputs + i);
      w[i] = static_cast<int8_t>(Clamp(w[i] - step, -127, 127));
    }
  }
}

uint32_t NitiConvGradientMax(const ConvShape& shape, const int8_t* input, const int8_t* error,
                             int32_t* row) {
  uint32_t largest = 0;
  for (int32_t o = 0; o < shape.out_channels; ++o) {
    if (!NitiConvGradientRow(shape, input, error, o, row)) continue;
    largest = LargestMagnitude(row, ConvRowSize(shape), largest);
  }
  return largest;
}

uint32_t NitiDepthwiseGradientMax(const ConvShape& shape, const int8_t* input, const int8_t* error,
                                  int32_t* row) {
  if (!NitiDepthwiseGradient(shape, input, error, row)) return 0;
  return LargestMagnitude(row, DepthwiseWeightSize(shape), 0);
}

uint32_t NitiDenseGradientMax(const DenseShape& shape, const int8_t* input, const int8_t* error) {
  uint32_t largest_input = 0, largest_error = 0;
  for (int32_t i = 0; i < shape.inputs; ++i) {
    const uint32_t m = Magnitude(input[i]);
    if (m > largest_input) largest_input = m;
  }
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const uint32_t m = Magnitude(error[o]);
    if (m > largest_error) largest_error = m;
  }
  return largest_input * largest_error;
}

}  // namespace tflm_train
