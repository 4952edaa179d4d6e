// Portable form: splits the scratch and calls micro_ops/core.
#include "micro_ops/trainer/train_kernels.h"

namespace tflm_train {
namespace {

void ApplyRelu(const int8_t* relu_output, int32_t size, int8_t* error) {
  if (relu_output != nullptr) NitiReluBackward(relu_output, size, error);
}

int32_t InputSize(const ConvShape& s) { return s.in_height * s.in_width * s.in_channels; }

int32_t* After(void* scratch, int32_t bytes) {
  return reinterpret_cast<int32_t*>(static_cast<uint8_t*>(scratch) + ScratchAlign(bytes));
}

}  // namespace

void TrainConvForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                      const int32_t* bias, const ScoreView* scores, const Requantize& requantize,
                      void* scratch, int8_t* output) {
  if (scores == nullptr) return NitiConvForward(shape, input, weights, bias, requantize, output);
  PriotConvForward(shape, input, weights, bias, *scores, requantize, static_cast<int8_t*>(scratch),
                   output);
}

void TrainDenseForward(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                       const int32_t* bias, const ScoreView* scores, const Requantize& requantize,
                       void* scratch, int8_t* output) {
  if (scores == nullptr) return NitiDenseForward(shape, input, weights, bias, requantize, output);
  PriotDenseForward(shape, input, weights, bias, *scores, requantize, static_cast<int8_t*>(scratch),
                    output);
}

void TrainConvBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                       const ScoreView* scores, const int8_t* relu_output,
                       const Requantize& requantize, void* scratch, int8_t* error_in) {
  if (scores == nullptr) {
    NitiConvBackward(shape, error_out, weights, requantize, static_cast<int32_t*>(scratch),
                     error_in);
  } else {
    PriotConvBackward(shape, error_out, weights, *scores, requantize, static_cast<int8_t*>(scratch),
                      After(scratch, ConvRowSize(shape)), error_in);
  }
  ApplyRelu(relu_output, InputSize(shape), error_in);
}

void TrainDenseBackward(const DenseShape& shape, const int8_t* error_out, const int8_t* weights,
                        const ScoreView* scores, const int8_t* relu_output,
                        const Requantize& requantize, void* scratch, int8_t* error_in) {
  if (scores == nullptr) {
    NitiDenseBackward(shape, error_out, weights, requantize, error_in);
  } else {
    PriotDenseBackward(shape, error_out, weights, *scores, requantize,
                       static_cast<int8_t*>(scratch), After(scratch, shape.inputs), error_in);
  }
  ApplyRelu(relu_output, shape.inputs, error_in);
}

void TrainConvScores(const ConvShape& shape, const int8_t* input, const int8_t* error,
                     const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                     void* scratch, ScoreCounts* counts) {
  PriotConvUpdate(shape, input, error, weights, scores, params, static_cast<int32_t*>(scratch),
                  counts);
}

void TrainDenseScores(const DenseShape& shape, const int8_t* input, const int8_t* error,
                      const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                      void*, ScoreCounts* counts) {
  PriotDenseUpdate(shape, input, error, weights, scores, params, counts);
}

void TrainConvWeights(const ConvShape& shape, const int8_t* input, const int8_t* error,
                      const UpdateParams& params, void* scratch, int8_t* weights) {
  NitiConvUpdate(shape, input, error, params, static_cast<int32_t*>(scratch), weights);
}

void TrainDenseWeights(const DenseShape& shape, const int8_t* input, const int8_t* error,
                       const UpdateParams& params, void*, int8_t* weights) {
  NitiDenseUpdate(shape, input, error, params, weights);
}

}  // namespace tflm_train
