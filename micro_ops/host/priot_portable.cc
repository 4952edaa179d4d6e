#include "micro_ops/host/priot_kernels.h"

namespace tflm_train {
namespace {

void StepEdge(const EdgeRow& row, int32_t i, int32_t value) {
  const int32_t step = UpdateStep(row.params, value, row.first_edge + i);
  if (step == 0) return;
  UpdateCounts& counts = *row.counts;
  ++counts.changed;
  if (step == 127 || step == -127) ++counts.saturated;
  if (row.scores == nullptr) {
    const int32_t after = Clamp(row.weights[i] - step, -127, 127);
    row.weights[i] = static_cast<int8_t>(after);
    if (after == 127 || after == -127) ++counts.at_limit;
    return;
  }
  const int32_t before = row.scores[i];
  const int32_t after = Clamp(before - step, -128, 127);
  row.scores[i] = static_cast<int8_t>(after);
  row.masked[i] = after < row.threshold ? 0 : row.weights[i];
  if (before >= row.threshold && after < row.threshold) ++counts.pruned;
  if (before < row.threshold && after >= row.threshold) ++counts.restored;
  if (after == 127 || after == -128) ++counts.at_limit;
}

bool Skips(const EdgeRow& row, int32_t i) { return row.scored != nullptr && row.scored[i] == 0; }

void ConvForward(const ConvShape& shape, ConvWork*, const int8_t* input, bool,
                 const int8_t* weights, const int32_t* bias, const Requantize* requantize,
                 int32_t* accumulators, int8_t* output) {
  if (requantize != nullptr) {
    NitiConvForward(shape, input, weights, bias, *requantize, output);
  } else {
    NitiConvAccumulate(shape, input, weights, bias, accumulators);
  }
}

void DenseForward(const DenseShape& shape, const int8_t* input, bool, const int8_t* weights,
                  const int32_t* bias, const Requantize* requantize, int32_t* accumulators,
                  int8_t* output) {
  if (requantize != nullptr) {
    NitiDenseForward(shape, input, weights, bias, *requantize, output);
  } else {
    NitiDenseAccumulate(shape, input, weights, bias, accumulators);
  }
}

void ConvBackward(const ConvShape& shape, ConvWork* work, const int8_t* error,
                  const int8_t* weights, const Requantize* requantize, int32_t* accumulators,
                  int8_t* error_in) {
  work->sums.resize(shape.in_channels);
  if (requantize != nullptr) {
    NitiConvBackward(shape, error, weights, *requantize, work->sums.data(), error_in);
  } else {
    NitiConvBackwardAccumulate(shape, error, weights, work->sums.data(), accumulators);
  }
}

void DenseBackward(const DenseShape& shape, const int8_t* error, const int8_t* weights,
                   const Requantize* requantize, int32_t* accumulators, int8_t* error_in) {
  if (requantize != nullptr) {
    NitiDenseBackward(shape, error, weights, *requantize, error_in);
  } else {
    NitiDenseBackwardAccumulate(shape, error, weights, accumulators);
  }
}

void ConvGradientBegin(const ConvShape&, ConvWork*, const int8_t*) {}

bool ConvGradientRow(const ConvShape& shape, ConvWork*, const int8_t* input, const int8_t* error,
                     int32_t channel, int32_t* row) {
  return NitiConvGradientRow(shape, input, error, channel, row);
}

void UpdateRow(const EdgeRow& row, const int32_t* gradient) {
  UpdateEdges(row, gradient, 0, row.size);
}

void UpdateDenseRow(const EdgeRow& row, int32_t error, const int8_t* input) {
  UpdateDenseEdges(row, error, input, 0, row.size);
}

}  // namespace

void UpdateEdges(const EdgeRow& row, const int32_t* gradient, int32_t begin, int32_t end) {
  for (int32_t i = begin; i < end; ++i) {
    if (Skips(row, i)) continue;
    StepEdge(row, i,
             row.scores == nullptr ? gradient[i] : SaturatingProduct(row.weights[i], gradient[i]));
  }
}

void UpdateDenseEdges(const EdgeRow& row, int32_t error, const int8_t* input, int32_t begin,
                      int32_t end) {
  for (int32_t i = begin; i < end; ++i) {
    if (Skips(row, i)) continue;
    const int32_t gradient = error * input[i];
    StepEdge(row, i, row.scores == nullptr ? gradient : row.weights[i] * gradient);
  }
}

const PriotKernels& PortablePriotKernels() {
  static const PriotKernels kernels = {"portable",           ConvForward,         DenseForward,
                                       NitiMaxPoolForward,   NitiMaxPoolBackward, ConvBackward,
                                       DenseBackward,        ConvGradientBegin,   ConvGradientRow,
                                       NitiRequantizeTensor, UpdateRow,           UpdateDenseRow};
  return kernels;
}

}  // namespace tflm_train
