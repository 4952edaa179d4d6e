// The AVX2 functions behind Avx2PriotKernels, by file.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_AVX2_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_AVX2_H_

#include "micro_ops/host/priot_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define TFLM_TRAIN_HAVE_AVX2 1
#endif

namespace tflm_train {
namespace avx2 {

// priot_avx2.cc
void Requantize8(const int32_t* values, int32_t size, const Requantize& params, int32_t index,
                 int8_t* output);
// priot_avx2_forward.cc
void ConvForward(const ConvShape&, ConvWork*, const int8_t* input, bool non_negative,
                 const int8_t* weights, const int32_t* bias, const Requantize*,
                 int32_t* accumulators, int8_t* output);
void DenseForward(const DenseShape&, const int8_t* input, bool non_negative, const int8_t* weights,
                  const int32_t* bias, const Requantize*, int32_t* accumulators, int8_t* output);
void MaxPoolForward(const PoolShape&, const int8_t* input, int8_t* output, uint8_t* argmax);
// priot_avx2_backward.cc
void MaxPoolBackward(const PoolShape&, const int8_t* error, const uint8_t* argmax,
                     int8_t* error_in);
void ConvBackward(const ConvShape&, ConvWork*, const int8_t* error, const int8_t* weights,
                  const Requantize*, int32_t* accumulators, int8_t* error_in);
void DenseBackward(const DenseShape&, const int8_t* error, const int8_t* weights, const Requantize*,
                   int32_t* accumulators, int8_t* error_in);
void ConvGradientBegin(const ConvShape&, ConvWork*, const int8_t* error);
bool ConvGradientRow(const ConvShape&, ConvWork*, const int8_t* input, const int8_t* error,
                     int32_t channel, int32_t* row);
// priot_avx2.cc
void UpdateRow(const EdgeRow& row, const int32_t* gradient);
void UpdateDenseRow(const EdgeRow& row, int32_t error, const int8_t* input);

}  // namespace avx2
}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_AVX2_H_
