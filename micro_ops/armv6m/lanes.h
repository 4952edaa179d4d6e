// The inner loop of the Cortex-M0+ kernels. That core multiplies 32 x 32 bits in one cycle but has
// no 8- or 16-bit products, so two int8 numbers travel in one word, as a + b * 65536, and one
// multiplication gives both products. Two such products fit side by side exactly (2 * 128 * 127 <
// 2^15); then they are taken apart and added to 32-bit sums. Zero factors are left out of the lists
// beforehand: activations behind a ReLU and errors are mostly zeros.
#ifndef TFLM_TRAIN_MICRO_OPS_ARMV6M_LANES_H_
#define TFLM_TRAIN_MICRO_OPS_ARMV6M_LANES_H_

#include <cstdint>

namespace tflm_train {

// One factor and the address of what it multiplies: rows of lanes, four values in two words.
struct LaneEntry {
  int32_t factor;
#if defined(__arm__)
  const uint32_t* row;
#else
  int32_t row;  // words from the base, so that an entry has 8 bytes on every machine
#endif
};
static_assert(sizeof(LaneEntry) == 8, "scratch sizes count on it");

inline LaneEntry MakeEntry(int32_t factor, const uint32_t* base, int32_t words) {
#if defined(__arm__)
  return {factor, base + words};
#else
  (void)base;
  return {factor, words};
#endif
}

// a + b * 65536, each -128 .. 127.
inline uint32_t Lanes(int32_t a, int32_t b) {
  return static_cast<uint32_t>(a) + (static_cast<uint32_t>(b) << 16);
}

// sums[c] += sum over the list of factor * value c of row + offset words, for 4 * blocks values of
// a row. The list is followed by one entry of factor 0 with a readable row (PadList). |factor *
// value| <= 128 * 127; sums are aligned to 4.
void LaneSums(const LaneEntry* list, int32_t count, int32_t offset, int32_t* sums, int32_t blocks,
              const uint32_t* base);

// Ends a list for LaneSums, which reads pairs.
inline void PadList(LaneEntry* list, int32_t count, const uint32_t* base) {
  list[count] = MakeEntry(0, base, 0);
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_ARMV6M_LANES_H_
