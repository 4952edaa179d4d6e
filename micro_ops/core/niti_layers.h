// Integer layers of the NITI family: int8 tensors with zero point 0 and power-of-two scales, int32
// accumulators, one shift per tensor. Pure functions on the caller's memory.
//
// Layouts: activations NHWC (batch 1), convolution weights [out][kh][kw][in], depthwise weights
// [kh][kw][out] with out = in * multiplier, dense weights [out][in]. Formulas:
// docs/priot_arithmetic.md. Buffers never overlap unless a function says so.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_NITI_LAYERS_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_NITI_LAYERS_H_

#include <cstdint>

#include "micro_ops/core/niti_rounding.h"

namespace tflm_train {

struct ConvShape {
  int32_t in_height, in_width, in_channels;
  int32_t out_height, out_width, out_channels;
  int32_t kernel_height, kernel_width;
  int32_t stride_height, stride_width;
  int32_t pad_top, pad_left;
};

// Edges of one output channel of a convolution.
inline int32_t ConvRowSize(const ConvShape& s) {
  return s.kernel_height * s.kernel_width * s.in_channels;
}
inline int32_t DepthwiseWeightSize(const ConvShape& s) {
  return s.kernel_height * s.kernel_width * s.out_channels;
}

struct DenseShape {
  int32_t inputs, outputs;
};

struct PoolShape {
  int32_t in_height, in_width, channels;
  int32_t out_height, out_width;
  int32_t filter_height, filter_width;
  int32_t stride_height, stride_width;
  int32_t pad_top, pad_left;
};

// Forward. `bias` (null: none) holds one int32 per output channel in the scale of the accumulators;
// it is never trained. `Accumulate` twins leave the int32 accumulators to a dynamic shift.
void NitiConvForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                     const int32_t* bias, const Requantize& requantize, int8_t* output);
void NitiConvAccumulate(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                        const int32_t* bias, int32_t* output);
void NitiDepthwiseForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                          const int32_t* bias, const Requantize& requantize, int8_t* output);
void NitiDepthwiseAccumulate(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                             const int32_t* bias, int32_t* output);
void NitiDenseForward(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                      const int32_t* bias, const Requantize& requantize, int8_t* output);
void NitiDenseAccumulate(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                         const int32_t* bias, int32_t* output);

// `argmax` (may be null for inference) receives for each output the position of its maximum inside
// the window, row by row; the first of equal ones. A window has at most 256 positions.
void NitiMaxPoolForward(const PoolShape& shape, const int8_t* input, int8_t* output,
                        uint8_t* argmax);

// Backward to the input: error_in = sat(round_shift(W^T error_out, shift)). Zero errors are
// skipped. `accumulators` of the convolution holds in_channels words.
void NitiConvBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                      const Requantize& requantize, int32_t* accumulators, int8_t* error_in);
void NitiConvBackwardAccumulate(const ConvShape& shape, const int8_t* error_out,
                                const int8_t* weights, int32_t* accumulators, int32_t* error_in);
void NitiDepthwiseBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                           const Requantize& requantize, int8_t* error_in);
void NitiDepthwiseBackwardAccumulate(const ConvShape& shape, const int8_t* error_out,
                                     const int8_t* weights, int32_t* error_in);
void NitiDenseBackward(const DenseShape& shape, const int8_t* error_out, const int8_t* weights,
                       const Requantize& requantize, int8_t* error_in);
void NitiDenseBackwardAccumulate(const DenseShape& shape, const int8_t* error_out,
                                 const int8_t* weights, int32_t* error_in);
// Adds where windows overlap, saturating to +-127.
void NitiMaxPoolBackward(const PoolShape& shape, const int8_t* error_out, const uint8_t* argmax,
                         int8_t* error_in);
// In place: error[i] = 0 where the layer's int8 output is not above 0.
void NitiReluBackward(const int8_t* output, int32_t size, int8_t* error);

// Dynamic shift: BitLength(max |v|) - bits, at least 0.
int32_t NitiDynamicShift(const int32_t* values, int32_t size, int32_t bits);
void NitiRequantizeTensor(const int32_t* values, int32_t size, const Requantize& requantize,
                          int8_t* output);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_NITI_LAYERS_H_
