// Convolutions of a training step on Cortex-M55.
#include "micro_ops/core/niti_loops.h"
#include "micro_ops/helium/dots.h"
#include "micro_ops/helium/update.h"
#include "micro_ops/trainer/dead_zone.h"
#include "micro_ops/trainer/scored_bits.h"
#include "micro_ops/trainer/train_kernels.h"

namespace tflm_train {
namespace {

int8_t* AsBytes(void* scratch, int32_t offset = 0) {
  return static_cast<int8_t*>(scratch) + offset;
}

void MaskRowInto(const ScoreView& scores, int32_t row, int32_t size, const int8_t* weights,
                 int32_t* rank, int8_t* masked) {
  const int8_t* w = weights + row * size;
  if (scores.storage == ScoreStorage::kDense) {
    MaskVector(w, scores.scores + row * size, scores.threshold, size, masked);
  } else {
    CopyVector(w, size, masked);
    ForEachPruned(scores, row, size, rank, [&](int32_t edge) { masked[edge] = 0; });
  }
}

// The window of one output position, borders as zeros.
void CopyWindow(const ConvShape& s, const int8_t* input, int32_t top, int32_t left, int8_t* row) {
  const Span ys = ClipSpan(top, s.kernel_height, s.in_height);
  const Span xs = ClipSpan(left, s.kernel_width, s.in_width);
  const int32_t pixels = xs.end - xs.begin, line = s.kernel_width * s.in_channels;
  if (pixels < s.kernel_width || ys.end - ys.begin < s.kernel_height) {
    ZeroVector(ConvRowSize(s), row);
  }
  for (int32_t ky = ys.begin; ky < ys.end; ++ky) {
    CopyVector(input + ((top + ky) * s.in_width + left + xs.begin) * s.in_channels,
               pixels * s.in_channels, row + ky * line + xs.begin * s.in_channels);
  }
}

// Outputs of `count` (1 .. 4) positions whose windows lie in `rows`, the first at flat index
// `index`.
void RunBlock(const ConvShape& s, const int8_t* weights, const int32_t* bias, const int8_t* rows,
              int32_t pitch, int32_t count, int32_t index, const Requantize& requantize,
              int8_t* output) {
  const int32_t size = ConvRowSize(s);
  for (int32_t o = 0; o < s.out_channels; ++o, weights += size, ++index) {
    const int32_t start = BiasOf(bias, o);
    int32_t sums[4] = {start, start, start, start};
    if (count == 4) {
      Dot4(weights, rows, pitch, size, sums);
      Requantize4(requantize, sums, index, s.out_channels, output + index);
      continue;
    }
    for (int32_t k = 0; k < count; ++k) {
      const int32_t at = index + k * s.out_channels;
      output[at] = RequantizeValue(requantize, start + Dot1(weights, rows + k * pitch, size), at);
    }
  }
}

// Masked weights as [tap][input channel][output channel].
void TransposeWeights(const ConvShape& s, const int8_t* weights, const ScoreView* scores,
                      int8_t* row, int8_t* transposed) {
  const int32_t size = ConvRowSize(s), step = s.out_channels;
  int32_t rank = 0;
  for (int32_t o = 0; o < s.out_channels; ++o) {
    const int8_t* w = weights + o * size;
    if (scores != nullptr) {
      MaskRowInto(*scores, o, size, weights, &rank, row);
      w = row;
    }
    int8_t* to = transposed + o;
    const uint32x4_t offsets = vmulq_n_u32(vidupq_n_u32(0, 1), static_cast<uint32_t>(step));
    for (int32_t i = 0; i < size; i += 4, to += 4 * step) {
      const mve_pred16_t inside = vctp32q(static_cast<uint32_t>(size - i));
      vstrbq_scatter_offset_p_s32(to, offsets, vldrbq_z_s32(w + i, inside), inside);
    }
  }
}

bool AnyNonzero(const int8_t* values, int32_t n) {
  for (int32_t i = 0; i < n; i += 16) {
    const mve_pred16_t inside = vctp8q(static_cast<uint32_t>(n - i));
    if (vcmpneq_m_n_s8(vldrbq_z_s8(values + i, inside), 0, inside)) return true;
  }
  return false;
}

void BackwardPosition(const ConvShape& s, const int8_t* const* errors, const int8_t* const* weights,
                      int32_t taps, const Requantize& requantize, int32_t index, int8_t* error_in) {
  int32_t c = 0;
  for (; c + 4 <= s.in_channels; c += 4) {
    int32_t sums[4] = {0, 0, 0, 0};
    for (int32_t t = 0; t < taps; ++t) {
      Dot4(errors[t], weights[t] + c * s.out_channels, s.out_channels, s.out_channels, sums);
    }
    Requantize4(requantize, sums, index + c, 1, error_in + index + c);
  }
  for (; c < s.in_channels; ++c) {
    int32_t sum = 0;
    for (int32_t t = 0; t < taps; ++t) {
      sum += Dot1(errors[t], weights[t] + c * s.out_channels, s.out_channels);
    }
    error_in[index + c] = RequantizeValue(requantize, sum, index + c);
  }
}

constexpr int32_t kMaxTaps = 128;

// NitiConvGradientRow with its bits.
bool GradientRow(const ConvShape& s, const int8_t* input, const int8_t* error, int32_t channel,
                 int32_t* row) {
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
        AddScaled(x, e, run, row + (ky * s.kernel_width + xs.begin) * s.in_channels);
      }
    }
  }
  return any;
}

}  // namespace

void TrainConvForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                      const int32_t* bias, const ScoreView* scores, const Requantize& requantize,
                      void* scratch, int8_t* output) {
  const int32_t size = ConvRowSize(shape), pitch = ScratchAlign(size);
  int8_t* rows = AsBytes(scratch);
  if (scores != nullptr) {
    int8_t* masked = AsBytes(scratch, 4 * pitch);
    int32_t rank = 0;
    for (int32_t o = 0; o < shape.out_channels; ++o) {
      MaskRowInto(*scores, o, size, weights, &rank, masked + o * size);
    }
    weights = masked;
  }
  int32_t count = 0, index = 0;
  for (int32_t oy = 0; oy < shape.out_height; ++oy) {
    for (int32_t ox = 0; ox < shape.out_width; ++ox) {
      CopyWindow(shape, input, oy * shape.stride_height - shape.pad_top,
                 ox * shape.stride_width - shape.pad_left, rows + count * pitch);
      if (++count < 4) continue;
      RunBlock(shape, weights, bias, rows, pitch, 4, index, requantize, output);
      index += 4 * shape.out_channels;
      count = 0;
    }
  }
  if (count > 0) RunBlock(shape, weights, bias, rows, pitch, count, index, requantize, output);
}

void TrainConvBackward(const ConvShape& s, const int8_t* error_out, const int8_t* weights,
                       const ScoreView* scores, const int8_t* relu_output,
                       const Requantize& requantize, void* scratch, int8_t* error_in) {
  int8_t* transposed = AsBytes(scratch, ScratchAlign(ConvRowSize(s)));
  TransposeWeights(s, weights, scores, AsBytes(scratch), transposed);
  const int32_t tap_size = s.in_channels * s.out_channels;
  const int8_t* errors[kMaxTaps];
  const int8_t* rows[kMaxTaps];
  int32_t index = 0;
  for (int32_t iy = 0; iy < s.in_height; ++iy) {
    for (int32_t ix = 0; ix < s.in_width; ++ix, index += s.in_channels) {
      int32_t taps = 0;
      for (int32_t ky = 0; ky < s.kernel_height; ++ky) {
        const int32_t sy = iy + s.pad_top - ky;
        if (sy < 0 || sy % s.stride_height != 0 || sy / s.stride_height >= s.out_height) continue;
        for (int32_t kx = 0; kx < s.kernel_width; ++kx) {
          const int32_t sx = ix + s.pad_left - kx;
          if (sx < 0 || sx % s.stride_width != 0 || sx / s.stride_width >= s.out_width) continue;
          const int8_t* error =
              error_out +
              (sy / s.stride_height * s.out_width + sx / s.stride_width) * s.out_channels;
          if (!AnyNonzero(error, s.out_channels)) continue;
          errors[taps] = error;
          rows[taps++] = transposed + (ky * s.kernel_width + kx) * tap_size;
        }
      }
      if (taps == 0) {
        ZeroVector(s.in_channels, error_in + index);
      } else {
        BackwardPosition(s, errors, rows, taps, requantize, index, error_in);
      }
    }
  }
  if (relu_output != nullptr) ReluMask(relu_output, index, error_in);
}

void TrainConvScores(const ConvShape& shape, const int8_t* input, const int8_t* error,
                     const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                     void* scratch, ScoreCounts* counts) {
  const int32_t size = ConvRowSize(shape);
  int32_t* row = static_cast<int32_t*>(scratch);
  const DeadZone zone = FindDeadZone(params);
  int32_t rank = 0;
  for (int32_t o = 0; o < shape.out_channels; ++o) {
    if (!GradientRow(shape, input, error, o, row)) {
      SkipScoredFast(scores, o, size, &rank);
    } else if (scores.storage == ScoreStorage::kDense) {
      const auto products = [&](int32_t i, mve_pred16_t inside) {
        return vmulq_s32(vldrbq_z_s32(weights + o * size + i, inside),
                         vldrwq_z_s32(row + i, inside));
      };
      // Above a thousand positions a product may not fit; then the exact form is needed.
      if (shape.out_height * shape.out_width <= 1000) {
        UpdateScores(scores, o * size, size, params, products, counts);
      } else {
        PriotUpdateRow(scores, o, size, weights + o * size, row, params, &rank, counts);
      }
    } else {
      UpdateScoredRow(
          scores, o, size, weights + o * size, row, params,
          [&](int32_t product) { return zone.Holds(product); }, &rank, counts);
    }
  }
}

void TrainConvWeights(const ConvShape& shape, const int8_t* input, const int8_t* error,
                      const UpdateParams& params, void* scratch, int8_t* weights) {
  const int32_t size = ConvRowSize(shape);
  int32_t* row = static_cast<int32_t*>(scratch);
  for (int32_t o = 0; o < shape.out_channels; ++o) {
    if (!GradientRow(shape, input, error, o, row)) continue;
    const auto gradient = [&](int32_t i, mve_pred16_t inside) {
      return vldrwq_z_s32(row + i, inside);
    };
    UpdateWeights(o * size, size, params, gradient, weights);
  }
}

}  // namespace tflm_train
