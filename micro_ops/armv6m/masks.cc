#include "micro_ops/armv6m/masks.h"

#include <cstring>

#include "micro_ops/trainer/scored_bits.h"

namespace tflm_train {
namespace {

constexpr uint32_t kTops = 0x80808080u;

// 0xff in each byte whose score is at least the threshold. Scores with their sign bit flipped
// compare as unsigned bytes; with the top bit of each byte set, subtracting cannot borrow from the
// next one.
template <bool kNegativeThreshold>
uint32_t KeepBytes(uint32_t scores, uint32_t low_thresholds) {
  const uint32_t x = scores ^ kTops;
  const uint32_t difference = (x | kTops) - low_thresholds;
  const uint32_t keep = (kNegativeThreshold ? x | difference : x & difference) & kTops;
  return (keep << 1) - (keep >> 7);
}

template <bool kNegativeThreshold>
void MaskWords(const int8_t* weights, const int8_t* scores, int32_t threshold, int32_t size,
               int8_t* masked) {
  const uint32_t low = (static_cast<uint32_t>(threshold + 128) & 127u) * 0x01010101u;
  for (int32_t i = 0; i < size; i += 4) {
    uint32_t w, s;
    memcpy(&w, __builtin_assume_aligned(weights + i, 4), 4);
    memcpy(&s, __builtin_assume_aligned(scores + i, 4), 4);
    w &= KeepBytes<kNegativeThreshold>(s, low);
    memcpy(__builtin_assume_aligned(masked + i, 4), &w, 4);
  }
}

bool Aligned(const void* a, const void* b, const void* c) {
  const uintptr_t all = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) |
                        reinterpret_cast<uintptr_t>(c);
  return (all & 3u) == 0;
}

}  // namespace

const int8_t* MaskedRow(const ScoreView* view, int32_t row, int32_t row_size, const int8_t* weights,
                        int32_t* rank, int8_t* masked) {
  const int8_t* w = weights + row * row_size;
  if (view == nullptr) return w;
  if (view->storage != ScoreStorage::kDense) {
    memcpy(masked, w, static_cast<size_t>(row_size));
    ForEachPruned(*view, row, row_size, rank, [&](int32_t edge) { masked[edge] = 0; });
    return masked;
  }
  const int8_t* s = view->scores + row * row_size;
  int32_t done = 0;
  if (Aligned(w, s, masked)) {
    done = row_size & ~3;
    (view->threshold < 0 ? MaskWords<true> : MaskWords<false>)(w, s, view->threshold, done, masked);
  }
  for (int32_t i = done; i < row_size; ++i) masked[i] = s[i] < view->threshold ? 0 : w[i];
  return masked;
}

}  // namespace tflm_train
