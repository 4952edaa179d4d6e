// The depth of the stack, by paint.
#ifndef TFLM_TRAIN_MICRO_OPS_TARGETS_COMMON_STACK_PAINT_H_
#define TFLM_TRAIN_MICRO_OPS_TARGETS_COMMON_STACK_PAINT_H_

#include <cstdint>

namespace tflm_train {

constexpr uint32_t kStackPaint = 0xa5c35a3cu;

// Paints what is free of the stack that ends at `limit`, but for a few words below the present one.
inline void PaintStack(uint32_t* limit) {
  uint32_t* sp;
  asm volatile("mov %0, sp" : "=r"(sp));
  for (uint32_t* to = limit; to < sp - 16; ++to) *to = kStackPaint;
}

// Bytes of the stack from `limit` to `top` that were used since.
inline uint32_t StackUsed(const uint32_t* limit, const uint32_t* top) {
  const uint32_t* p = limit;
  while (p < top && *p == kStackPaint) ++p;
  return static_cast<uint32_t>(top - p) * sizeof(uint32_t);
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TARGETS_COMMON_STACK_PAINT_H_
