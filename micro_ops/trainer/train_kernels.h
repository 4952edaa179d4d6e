// The layers of an integer-only training step as generated firmware calls them: one prototype per
// pass, with the scratch that the target's form of it needs. Three forms with the same bits:
//   trainer/train_kernels.cc   portable, over micro_ops/core
//   armv6m/                    Cortex-M0+: two products per multiplication, zeros skipped
//   helium/                    Cortex-M55: MVE, masks by vector predicate
// Exactly one of them is compiled in: TFLM_TRAIN_ARMV6M or TFLM_TRAIN_HELIUM choose.
#ifndef TFLM_TRAIN_MICRO_OPS_TRAINER_TRAIN_KERNELS_H_
#define TFLM_TRAIN_MICRO_OPS_TRAINER_TRAIN_KERNELS_H_

#include <cstdint>

#include "micro_ops/core/niti_layers.h"
#include "micro_ops/core/niti_update.h"
#include "micro_ops/core/priot_layers.h"
#include "micro_ops/trainer/train_scratch.h"

namespace tflm_train {

// `scores` null: all weights count. `bias` null: none. `scratch`: as many bytes as
// train_scratch.h says, aligned to 8; nothing is kept in it between calls.
void TrainConvForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                      const int32_t* bias, const ScoreView* scores, const Requantize& requantize,
                      void* scratch, int8_t* output);
void TrainDepthwiseForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                           const int32_t* bias, const ScoreView* scores,
                           const Requantize& requantize, void* scratch, int8_t* output);
void TrainDenseForward(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                       const int32_t* bias, const ScoreView* scores, const Requantize& requantize,
                       void* scratch, int8_t* output);

// `relu_output` (null: none) is the int8 output of the ReLU below, of the size of error_in: where
// it is not above 0 the error becomes 0, and need not be computed.
void TrainConvBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                       const ScoreView* scores, const int8_t* relu_output,
                       const Requantize& requantize, void* scratch, int8_t* error_in);
void TrainDepthwiseBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                            const ScoreView* scores, const int8_t* relu_output,
                            const Requantize& requantize, void* scratch, int8_t* error_in);
void TrainDenseBackward(const DenseShape& shape, const int8_t* error_out, const int8_t* weights,
                        const ScoreView* scores, const int8_t* relu_output,
                        const Requantize& requantize, void* scratch, int8_t* error_in);

// PRIOT: the scores learn.
void TrainConvScores(const ConvShape& shape, const int8_t* input, const int8_t* error,
                     const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                     void* scratch, ScoreCounts* counts);
void TrainDepthwiseScores(const ConvShape& shape, const int8_t* input, const int8_t* error,
                          const int8_t* weights, const ScoreView& scores,
                          const UpdateParams& params, void* scratch, ScoreCounts* counts);
void TrainDenseScores(const DenseShape& shape, const int8_t* input, const int8_t* error,
                      const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                      void* scratch, ScoreCounts* counts);

// NITI: the weights learn.
void TrainConvWeights(const ConvShape& shape, const int8_t* input, const int8_t* error,
                      const UpdateParams& params, void* scratch, int8_t* weights);
void TrainDepthwiseWeights(const ConvShape& shape, const int8_t* input, const int8_t* error,
                           const UpdateParams& params, void* scratch, int8_t* weights);
void TrainDenseWeights(const DenseShape& shape, const int8_t* input, const int8_t* error,
                       const UpdateParams& params, void* scratch, int8_t* weights);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TRAINER_TRAIN_KERNELS_H_
