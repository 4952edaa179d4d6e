// Counter-based random words: any word of any stream without the words before it, so nothing is
// stored, any order gives the same bits, and a lost state is rebuilt from three integers.
// docs/zo_arithmetic.md, "Random numbers".
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_COUNTER_RNG_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_COUNTER_RNG_H_

#include <cstdint>

namespace tflm_train {

// Stream index of the draws that round updates; directions use 0 .. q - 1.
constexpr uint32_t kRoundingStream = 0xffffffffu;

// A bijection of the 32-bit words with full avalanche; 0 maps to 0.
inline uint32_t RngMix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

// The part of a key that all streams of a step share: key = RngMix(RngStepKey(seed, step) +
// stream).
inline uint32_t RngStepKey(uint32_t seed, uint32_t step) { return RngMix(RngMix(seed) + step); }

inline uint32_t RngKey(uint32_t seed, uint32_t step, uint32_t stream) {
  return RngMix(RngStepKey(seed, step) + stream);
}

inline uint32_t RngWord(uint32_t key, uint32_t block) { return RngMix(key + block * 0x9e3779b9u); }

// Words of signs a tensor of `size` elements takes: one bit each.
inline uint32_t RngSignBlocks(uint32_t size) { return (size + 31u) / 32u; }

// Words of rounding draws a tensor of `size` elements takes: 16 bits each.
inline uint32_t RngRoundingBlocks(uint32_t size) { return (size + 1u) / 2u; }

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_COUNTER_RNG_H_
