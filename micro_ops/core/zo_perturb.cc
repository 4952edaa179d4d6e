#include "micro_ops/core/zo_perturb.h"

#include "micro_ops/core/counter_rng.h"

namespace tflm_train {
namespace {

template <typename T>
void Perturb(T* w, uint32_t size, uint32_t key, uint32_t first_block, int32_t delta) {
  for (uint32_t begin = 0, block = first_block; begin < size; begin += 32, ++block) {
    uint32_t bits = RngWord(key, block);
    const uint32_t end = size - begin < 32 ? size : begin + 32;
    for (uint32_t j = begin; j < end; ++j, bits >>= 1) {
      w[j] = static_cast<T>(w[j] + ((bits & 1u) ? delta : -delta));
    }
  }
}

}  // namespace

void ZoPerturbInt8(int8_t* w, uint32_t size, uint32_t key, uint32_t first_block, int32_t delta) {
  Perturb(w, size, key, first_block, delta);
}

void ZoPerturbInt32(int32_t* w, uint32_t size, uint32_t key, uint32_t first_block, int32_t delta) {
  Perturb(w, size, key, first_block, delta);
}

}  // namespace tflm_train
