// The levels that exist; each function gives nullptr on a machine without its instructions.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_SIMD_LEVELS_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_SIMD_LEVELS_H_

#include "micro_ops/host/simd.h"

namespace tflm_train {

const SimdKernels* Avx2Kernels();

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_SIMD_LEVELS_H_
