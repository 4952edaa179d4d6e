// The levels that exist; each function gives nullptr on a machine without its instructions.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_SIMD_LEVELS_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_SIMD_LEVELS_H_

#include "micro_ops/host/simd.h"

namespace tflm_train {

const SimdKernels* Avx512VnniKernels();
const SimdKernels* Avx2Kernels();
const SimdKernels* NeonKernels();

// The AVX-512 VNNI kernels with their one instruction computed lane by lane, so that their packing
// and tiling are tested on machines without it. Needs AVX2; never chosen by itself.
const SimdKernels* EmulatedVnniKernels();

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_SIMD_LEVELS_H_
