// Weight gradients and weight updates of the NITI family. One row of int32 accumulators is enough:
// no gradient of a whole tensor is ever stored. docs/priot_arithmetic.md, "Updates".
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_NITI_UPDATE_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_NITI_UPDATE_H_

#include <cstdint>

#include "micro_ops/core/niti_layers.h"

namespace tflm_train {

// `key` feeds stochastic rounding: edge j of the tensor draws RngWord(key, j).
struct UpdateParams {
  int32_t shift;
  Rounding rounding;
  uint32_t key;
};

// The step of one edge: clamp(round_shift(value, shift), +-127).
inline int32_t UpdateStep(const UpdateParams& params, int32_t value, int32_t edge) {
  const uint32_t word = EffectiveRounding(params.rounding) == Rounding::kStochastic
                            ? RngWord(params.key, static_cast<uint32_t>(edge))
                            : 0u;
  return Clamp(RoundShift(value, params.shift, params.rounding, word), -127, 127);
}

// Gradient error x input^T of one output channel into `row` (kh * kw * in words). Returns false,
// leaving `row` as it was, when every error of the channel is zero.
bool NitiConvGradientRow(const ConvShape& shape, const int8_t* input, const int8_t* error,
                         int32_t channel, int32_t* row);
// A depthwise layer is one row of kh * kw * out words.
bool NitiDepthwiseGradient(const ConvShape& shape, const int8_t* input, const int8_t* error,
                           int32_t* row);

// weights[i] <- clamp(weights[i] - step(gradient[i]), +-127); `first_edge` is the flat index of
// weights[0] in its tensor.
void NitiUpdateRow(const int32_t* gradient, int32_t size, int32_t first_edge,
                   const UpdateParams& params, int8_t* weights);

// Whole layers. `row` is the scratch described above.
void NitiConvUpdate(const ConvShape& shape, const int8_t* input, const int8_t* error,
                    const UpdateParams& params, int32_t* row, int8_t* weights);
void NitiDepthwiseUpdate(const ConvShape& shape, const int8_t* input, const int8_t* error,
                         const UpdateParams& params, int32_t* row, int8_t* weights);
void NitiDenseUpdate(const DenseShape& shape, const int8_t* input, const int8_t* error,
                     const UpdateParams& params, int8_t* weights);

// Largest magnitude of the weight gradient, for dynamic update shifts (a second pass over the same
// sums instead of memory for them).
uint32_t NitiConvGradientMax(const ConvShape& shape, const int8_t* input, const int8_t* error,
                             int32_t* row);
uint32_t NitiDepthwiseGradientMax(const ConvShape& shape, const int8_t* input, const int8_t* error,
                                  int32_t* row);
uint32_t NitiDenseGradientMax(const DenseShape& shape, const int8_t* input, const int8_t* error);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_NITI_UPDATE_H_
