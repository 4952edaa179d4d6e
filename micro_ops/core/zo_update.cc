#include "micro_ops/core/zo_update.h"

#include "micro_ops/core/counter_rng.h"

namespace tflm_train {
namespace {

constexpr int32_t kMaxMomentum = int32_t{1} << 30;

// Calls step(j, m_j) for every element, m_j after this step. Signs come 32 elements at a time, so
// the sums of one block live on the stack and a direction costs two mixes a block.
template <typename Step>
void ForEachMomentum(const ZoUpdateParams& p, int32_t* momentum, uint32_t size, Step step) {
  const uint32_t step_key = RngStepKey(p.seed, p.step);
  for (uint32_t begin = 0, block = p.first_sign_block; begin < size; begin += 32, ++block) {
    const uint32_t count = size - begin < 32 ? size - begin : 32;
    int32_t u[32] = {0};
    for (int32_t k = 0; k < p.q; ++k) {
      const int32_t a = p.coefficients[k];
      if (a == 0) continue;
      uint32_t bits = RngWord(RngMix(step_key + static_cast<uint32_t>(k)), block);
      for (uint32_t j = 0; j < count; ++j, bits >>= 1) u[j] += (bits & 1u) ? a : -a;
    }
    for (uint32_t j = 0; j < count; ++j) {
      int32_t m = u[j];
      if (momentum != nullptr) {
        const int32_t old = momentum[begin + j];
        const int32_t fade = 256 - p.beta_q8;
        // floor(old * fade / 256) without a 64-bit product.
        m += old - ((old >> 8) * fade + (((old & 255) * fade) >> 8));
        if (m > kMaxMomentum) m = kMaxMomentum;
        if (m < -kMaxMomentum) m = -kMaxMomentum;
        momentum[begin + j] = m;
      }
      step(begin + j, m);
    }
  }
}

template <typename T>
bool Clamp(T* value, T limit) {
  if (*value >= limit) *value = limit;
  if (*value <= -limit) *value = -limit;
  return *value == limit || *value == -limit;
}

template <typename T>
uint32_t UpdateStochastic(const ZoUpdateParams& p, T* w, int32_t* momentum, uint32_t size) {
  const uint32_t key = RngKey(p.seed, p.step, kRoundingStream);
  uint32_t saturated = 0;
  uint32_t draw = 0;
  ForEachMomentum(p, momentum, size, [&](uint32_t j, int32_t m) {
    draw = (j & 1u) ? draw >> 16 : RngWord(key, p.first_rounding_block + (j >> 1));
    const int64_t delta =
        (static_cast<int64_t>(m) * p.unit + static_cast<int64_t>(draw & 0xffffu)) >> 16;
    int64_t value = w[j] - delta;
    saturated += Clamp<int64_t>(&value, p.limit);
    w[j] = static_cast<T>(value);
  });
  return saturated;
}

}  // namespace

uint32_t ZoUpdateInt8(const ZoUpdateParams& params, int8_t* w, int32_t* momentum, uint32_t size) {
  return UpdateStochastic(params, w, momentum, size);
}

uint32_t ZoUpdateInt32(const ZoUpdateParams& params, int32_t* w, int32_t* momentum, uint32_t size) {
  return UpdateStochastic(params, w, momentum, size);
}

uint32_t ZoUpdateInt16Shadow(const ZoUpdateParams& params, int8_t* w, int16_t* shadow,
                             int32_t* momentum, uint32_t size) {
  uint32_t saturated = 0;
  ForEachMomentum(params, momentum, size, [&](uint32_t j, int32_t m) {
    int32_t value = shadow[j] - ((m + 128) >> 8);
    saturated += Clamp<int32_t>(&value, 256 * params.limit);
    shadow[j] = static_cast<int16_t>(value);
    w[j] = static_cast<int8_t>((value + 128) >> 8);
  });
  return saturated;
}

uint32_t ZoUpdateFloatShadow(const ZoUpdateParams& params, int8_t* w, float* shadow,
                             int32_t* momentum, uint32_t size) {
  uint32_t saturated = 0;
  ForEachMomentum(params, momentum, size, [&](uint32_t j, int32_t m) {
    float value = shadow[j] - static_cast<float>(m) * (1.0f / 65536.0f);
    saturated += Clamp<float>(&value, static_cast<float>(params.limit));
    shadow[j] = value;
    int32_t rounded = static_cast<int32_t>(value + 0.5f);
    if (static_cast<float>(rounded) > value + 0.5f) --rounded;
    w[j] = static_cast<int8_t>(rounded);
  });
  return saturated;
}

}  // namespace tflm_train
