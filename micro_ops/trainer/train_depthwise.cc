// Depthwise layers have little work in them: every target takes the portable kernels.
#include "micro_ops/trainer/train_kernels.h"

namespace tflm_train {

void TrainDepthwiseForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                           const int32_t* bias, const ScoreView* scores,
                           const Requantize& requantize, void* scratch, int8_t* output) {
  if (scores == nullptr) {
    return NitiDepthwiseForward(shape, input, weights, bias, requantize, output);
  }
  PriotDepthwiseForward(shape, input, weights, bias, *scores, requantize,
                        static_cast<int8_t*>(scratch), output);
}

void TrainDepthwiseBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                            const ScoreView* scores, const int8_t* relu_output,
                            const Requantize& requantize, void* scratch, int8_t* error_in) {
  if (scores == nullptr) {
    NitiDepthwiseBackward(shape, error_out, weights, requantize, error_in);
  } else {
    PriotDepthwiseBackward(shape, error_out, weights, *scores, requantize,
                           static_cast<int8_t*>(scratch), error_in);
  }
  const int32_t size = shape.in_height * shape.in_width * shape.in_channels;
  if (relu_output != nullptr) NitiReluBackward(relu_output, size, error_in);
}

void TrainDepthwiseScores(const ConvShape& shape, const int8_t* input, const int8_t* error,
                          const int8_t* weights, const ScoreView& scores,
                          const UpdateParams& params, void* scratch, ScoreCounts* counts) {
  PriotDepthwiseUpdate(shape, input, error, weights, scores, params, static_cast<int32_t*>(scratch),
                       counts);
}

void TrainDepthwiseWeights(const ConvShape& shape, const int8_t* input, const int8_t* error,
                           const UpdateParams& params, void* scratch, int8_t* weights) {
  NitiDepthwiseUpdate(shape, input, error, params, static_cast<int32_t*>(scratch), weights);
}

}  // namespace tflm_train
