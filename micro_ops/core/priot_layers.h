// Masked twins of the NITI layers: the weights stay frozen in flash, the scores decide which of
// them count. Same layouts and formulas as niti_layers.h.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_PRIOT_LAYERS_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_PRIOT_LAYERS_H_

#include <cstdint>

#include "micro_ops/core/niti_layers.h"
#include "micro_ops/core/priot_scores.h"

namespace tflm_train {

// Forward. `masked_row` is scratch for one row of weights (kh * kw * in; kh * kw * out of a
// depthwise layer; the inputs of a dense one).
void PriotConvForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                      const int32_t* bias, const ScoreView& scores, const Requantize& requantize,
                      int8_t* masked_row, int8_t* output);
void PriotDepthwiseForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                           const int32_t* bias, const ScoreView& scores,
                           const Requantize& requantize, int8_t* masked_row, int8_t* output);
void PriotDenseForward(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                       const int32_t* bias, const ScoreView& scores, const Requantize& requantize,
                       int8_t* masked_row, int8_t* output);

// Backward through the masked weights (the paper's own form uses NitiXxxBackward on all of them).
// `masked_row` as above; `accumulators` holds PriotXxxBackwardWords words.
int32_t PriotConvBackwardWords(const ConvShape& shape, ScoreStorage storage);
void PriotConvBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                       const ScoreView& scores, const Requantize& requantize, int8_t* masked_row,
                       int32_t* accumulators, int8_t* error_in);
void PriotDepthwiseBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                            const ScoreView& scores, const Requantize& requantize,
                            int8_t* masked_row, int8_t* error_in);
int32_t PriotDenseBackwardWords(const DenseShape& shape, ScoreStorage storage);
void PriotDenseBackward(const DenseShape& shape, const int8_t* error_out, const int8_t* weights,
                        const ScoreView& scores, const Requantize& requantize, int8_t* masked_row,
                        int32_t* accumulators, int8_t* error_in);

// Score updates; `row` is scratch for one row of int32 sums. Call after the layer's backward pass:
// that one uses the masks of the forward pass.
void PriotConvUpdate(const ConvShape& shape, const int8_t* input, const int8_t* error,
                     const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                     int32_t* row, ScoreCounts* counts);
void PriotDepthwiseUpdate(const ConvShape& shape, const int8_t* input, const int8_t* error,
                          const int8_t* weights, const ScoreView& scores,
                          const UpdateParams& params, int32_t* row, ScoreCounts* counts);
void PriotDenseUpdate(const DenseShape& shape, const int8_t* input, const int8_t* error,
                      const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                      ScoreCounts* counts);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_PRIOT_LAYERS_H_
