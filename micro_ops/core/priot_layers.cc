#include "micro_ops/core/priot_layers.h"

#include "micro_ops/core/niti_loops.h"

namespace tflm_train {
namespace {

// Weights seen through dense scores.
struct MaskedWeights {
  const int8_t* weights;
  const int8_t* scores;
  int32_t threshold;
  int32_t operator[](int32_t edge) const { return scores[edge] < threshold ? 0 : weights[edge]; }
};

// Adds e times a kernel row of weights to the inputs below the window of output (oy, ox).
void ScatterWindow(const ConvShape& s, const int8_t* row, int32_t oy, int32_t ox, int32_t e,
                   int32_t* sums) {
  const int32_t top = oy * s.stride_height - s.pad_top;
  const int32_t left = ox * s.stride_width - s.pad_left;
  const Span ys = ClipSpan(top, s.kernel_height, s.in_height);
  const Span xs = ClipSpan(left, s.kernel_width, s.in_width);
  const int32_t run = (xs.end - xs.begin) * s.in_channels;
  for (int32_t ky = ys.begin; ky < ys.end; ++ky) {
    int32_t* target = sums + ((top + ky) * s.in_width + left + xs.begin) * s.in_channels;
    const int8_t* w = row + (ky * s.kernel_width + xs.begin) * s.in_channels;
    for (int32_t i = 0; i < run; ++i) target[i] += e * w[i];
  }
}

}  // namespace

void PriotConvForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                      const int32_t* bias, const ScoreView& scores, const Requantize& requantize,
                      int8_t* masked_row, int8_t* output) {
  const int32_t size = ConvRowSize(shape);
  int32_t rank = 0;
  for (int32_t o = 0; o < shape.out_channels; ++o) {
    PriotMaskRow(scores, o, size, weights + o * size, &rank, masked_row);
    ConvForwardChannel(shape, input, masked_row, BiasOf(bias, o), o,
                       RequantizeSink{requantize, output});
  }
}

void PriotDepthwiseForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                           const int32_t* bias, const ScoreView& scores,
                           const Requantize& requantize, int8_t* masked_row, int8_t* output) {
  int32_t rank = 0;
  PriotMaskRow(scores, 0, DepthwiseWeightSize(shape), weights, &rank, masked_row);
  DepthwiseForward(shape, input, masked_row, bias, RequantizeSink{requantize, output});
}

void PriotDenseForward(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                       const int32_t* bias, const ScoreView& scores, const Requantize& requantize,
                       int8_t* masked_row, int8_t* output) {
  int32_t rank = 0;
  for (int32_t o = 0; o < shape.outputs; ++o) {
    PriotMaskRow(scores, o, shape.inputs, weights + o * shape.inputs, &rank, masked_row);
    const int32_t sum = BiasOf(bias, o) + DenseDot(input, masked_row, shape.inputs);
    output[o] = RequantizeValue(requantize, sum, o);
  }
}

int32_t PriotConvBackwardWords(const ConvShape& s, ScoreStorage storage) {
  return storage == ScoreStorage::kDense ? s.in_channels : s.in_height * s.in_width * s.in_channels;
}

void PriotConvBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                       const ScoreView& scores, const Requantize& requantize, int8_t* masked_row,
                       int32_t* accumulators, int8_t* error_in) {
  if (scores.storage == ScoreStorage::kDense) {
    ConvBackward(shape, error_out, MaskedWeights{weights, scores.scores, scores.threshold},
                 accumulators, RequantizeSink{requantize, error_in});
    return;
  }
  // Packed scores can be read in order only: row by row into sums of the whole input.
  const int32_t row_size = ConvRowSize(shape);
  const int32_t in_size = shape.in_height * shape.in_width * shape.in_channels;
  for (int32_t i = 0; i < in_size; ++i) accumulators[i] = 0;
  int32_t rank = 0;
  for (int32_t o = 0; o < shape.out_channels; ++o) {
    PriotMaskRow(scores, o, row_size, weights + o * row_size, &rank, masked_row);
    for (int32_t oy = 0; oy < shape.out_height; ++oy) {
      for (int32_t ox = 0; ox < shape.out_width; ++ox) {
        const int32_t e = error_out[(oy * shape.out_width + ox) * shape.out_channels + o];
        if (e != 0) ScatterWindow(shape, masked_row, oy, ox, e, accumulators);
      }
    }
  }
  NitiRequantizeTensor(accumulators, in_size, requantize, error_in);
}

void PriotDepthwiseBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                            const ScoreView& scores, const Requantize& requantize,
                            int8_t* masked_row, int8_t* error_in) {
  int32_t rank = 0;
  PriotMaskRow(scores, 0, DepthwiseWeightSize(shape), weights, &rank, masked_row);
  DepthwiseBackward(shape, error_out, masked_row, RequantizeSink{requantize, error_in});
}

int32_t PriotDenseBackwardWords(const DenseShape& shape, ScoreStorage storage) {
  return storage == ScoreStorage::kDense ? 0 : shape.inputs;
}

void PriotDenseBackward(const DenseShape& shape, const int8_t* error_out, const int8_t* weights,
                        const ScoreView& scores, const Requantize& requantize, int8_t* masked_row,
                        int32_t* accumulators, int8_t* error_in) {
  if (scores.storage == ScoreStorage::kDense) {
    DenseBackward(shape, error_out, MaskedWeights{weights, scores.scores, scores.threshold},
                  RequantizeSink{requantize, error_in});
    return;
  }
  for (int32_t i = 0; i < shape.inputs; ++i) accumulators[i] = 0;
  int32_t rank = 0;
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int32_t e = error_out[o];
    if (e == 0) {
      PriotSkipRow(scores, o, shape.inputs, &rank);
      continue;
    }
    PriotMaskRow(scores, o, shape.inputs, weights + o * shape.inputs, &rank, masked_row);
    for (int32_t i = 0; i < shape.inputs; ++i) accumulators[i] += e * masked_row[i];
  }
  NitiRequantizeTensor(accumulators, shape.inputs, requantize, error_in);
}

void PriotConvUpdate(const ConvShape& shape, const int8_t* input, const int8_t* error,
                     const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                     int32_t* row, ScoreCounts* counts) {
  const int32_t size = ConvRowSize(shape);
  int32_t rank = 0;
  for (int32_t o = 0; o < shape.out_channels; ++o) {
    if (NitiConvGradientRow(shape, input, error, o, row)) {
      PriotUpdateRow(scores, o, size, weights + o * size, row, params, &rank, counts);
    } else {
      PriotSkipRow(scores, o, size, &rank);
    }
  }
}

void PriotDepthwiseUpdate(const ConvShape& shape, const int8_t* input, const int8_t* error,
                          const int8_t* weights, const ScoreView& scores,
                          const UpdateParams& params, int32_t* row, ScoreCounts* counts) {
  if (!NitiDepthwiseGradient(shape, input, error, row)) return;
  int32_t rank = 0;
  PriotUpdateRow(scores, 0, DepthwiseWeightSize(shape), weights, row, params, &rank, counts);
}

void PriotDenseUpdate(const DenseShape& shape, const int8_t* input, const int8_t* error,
                      const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                      ScoreCounts* counts) {
  const int32_t size = shape.inputs;
  int32_t rank = 0;
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int32_t e = error[o];
    if (e == 0) {
      PriotSkipRow(scores, o, size, &rank);
      continue;
    }
    const int8_t* w = weights + o * size;
    VisitScored(scores, o, size, &rank, [&](int32_t i, int32_t score) {
      if (input[i] == 0) return;
      const int32_t step = UpdateStep(params, w[i] * (e * input[i]), o * size + i);
      PriotApplyStep(scores, score, step, counts);
    });
  }
}

}  // namespace tflm_train
