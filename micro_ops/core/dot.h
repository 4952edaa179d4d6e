// The inner loop of the dense kernels.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_DOT_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_DOT_H_

#include <cstdint>

namespace tflm_train {

// sum (x[i] + offset) * w[i] modulo 2^32; |offset| <= 128.
inline int32_t DotInt8(const int8_t* x, const int8_t* w, int32_t offset, int32_t size) {
  uint32_t acc = 0;
  for (int32_t i = 0; i < size; ++i) acc += static_cast<uint32_t>((x[i] + offset) * w[i]);
  return static_cast<int32_t>(acc);
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_DOT_H_
