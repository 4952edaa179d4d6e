// Rounding shifts, saturation and bit lengths of the integer-only trainers (NITI, PRIOT).
// docs/priot_arithmetic.md, "Rounding", defines each mode to the bit.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_NITI_ROUNDING_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_NITI_ROUNDING_H_

#include <cstdint>

#include "micro_ops/core/counter_rng.h"
#include "micro_ops/core/fixed_point.h"

namespace tflm_train {

// The values are part of the file format (docs/priot_format.md).
enum class Rounding : int32_t {
  kHalfUp = 0,
  kHalfAway = 1,
  kPseudoStochastic = 2,
  kStochastic = 3,
  kTflm = 4,
};
constexpr int32_t kRoundingModes = 5;
constexpr int32_t kMaxShift = 31;

// Streams of the counter RNG for stochastic rounding: RngKey(seed, step, NitiStream(layer, use)).
// Direction streams of the zeroth-order trainer stay below 2^31.
enum class NitiUse : uint32_t { kForward = 0, kBackward = 1, kUpdate = 2 };
inline uint32_t NitiStream(uint32_t layer, NitiUse use) {
  return 0x80000000u + 8u * layer + static_cast<uint32_t>(use);
}

// Firmware that uses one mode only defines TFLM_TRAIN_FIXED_ROUNDING to its number, and the other
// modes leave the binary.
inline Rounding EffectiveRounding(Rounding mode) {
#ifdef TFLM_TRAIN_FIXED_ROUNDING
  (void)mode;
  return static_cast<Rounding>(TFLM_TRAIN_FIXED_ROUNDING);
#else
  return mode;
#endif
}

inline uint32_t Magnitude(int32_t value) {
  return value < 0 ? 0u - static_cast<uint32_t>(value) : static_cast<uint32_t>(value);
}

inline int32_t WithSign(uint32_t magnitude, int32_t sign_of) {
  return static_cast<int32_t>(sign_of < 0 ? 0u - magnitude : magnitude);
}

// NITI's deterministic stand-in for stochastic rounding: the high half of the dropped bits is
// compared with the low half.
inline uint32_t PseudoStochasticMagnitude(uint32_t magnitude, int32_t shift) {
  const uint32_t dropped = magnitude & ((1u << shift) - 1u);
  const int32_t half = shift / 2;
  const uint32_t high = dropped >> half;
  const uint32_t low = (dropped & ((1u << half) - 1u)) << (shift & 1);
  return (magnitude >> shift) + (high > low ? 1u : 0u);
}

// value / 2^shift, 0 <= shift <= 31, rounded by `mode`. `word` is used by kStochastic alone. No
// intermediate overflows for any int32 value.
inline int32_t RoundShift(int32_t value, int32_t shift, Rounding mode, uint32_t word) {
  if (shift == 0) return value;
  switch (EffectiveRounding(mode)) {
    case Rounding::kHalfUp:
      return (value >> shift) + ((value >> (shift - 1)) & 1);
    case Rounding::kHalfAway:
      return WithSign((Magnitude(value) + (1u << (shift - 1))) >> shift, value);
    case Rounding::kPseudoStochastic:
      return WithSign(PseudoStochasticMagnitude(Magnitude(value), shift), value);
    case Rounding::kStochastic: {
      const uint32_t mask = (1u << shift) - 1u;
      const uint32_t sum = (static_cast<uint32_t>(value) & mask) + (word >> (32 - shift));
      return (value >> shift) + static_cast<int32_t>(sum >> shift);
    }
    case Rounding::kTflm: {
      const int32_t half = (value >> 1) + (value & 1);
      if (shift == 1) return half;
      const int32_t rest = shift - 1;
      const int32_t mask = static_cast<int32_t>((1u << rest) - 1u);
      return (half >> rest) + ((half & mask) > (mask >> 1) + (half < 0 ? 1 : 0) ? 1 : 0);
    }
  }
  return value;
}

// Number of bits of a magnitude: 0 -> 0, 1 -> 1, 127 -> 7, 128 -> 8.
inline int32_t BitLength(uint32_t magnitude) {
  int32_t bits = 0;
  for (; magnitude != 0; magnitude >>= 1) ++bits;
  return bits;
}

// weight * gradient saturated to int32. The 64-bit product is computed only where the 32-bit one
// can overflow, which takes more than a thousand output positions.
inline int32_t SaturatingProduct(int32_t weight, int32_t gradient) {
  constexpr uint32_t kSafe = 0x7fffffffu / 128u;
  if (Magnitude(gradient) <= kSafe) return weight * gradient;
  const int64_t product = static_cast<int64_t>(weight) * gradient;
  if (product > INT32_MAX) return INT32_MAX;
  if (product < INT32_MIN) return INT32_MIN;
  return static_cast<int32_t>(product);
}

// How int32 accumulators become int8: sat(round_shift(acc, shift)) within [low, high]. `key` feeds
// kStochastic: element j draws RngWord(key, j), j its flat index in the destination.
struct Requantize {
  int32_t shift;
  Rounding rounding;
  int32_t low;
  int32_t high;
  uint32_t key;
};

inline int8_t RequantizeValue(const Requantize& params, int32_t accumulator, int32_t index) {
  const uint32_t word = EffectiveRounding(params.rounding) == Rounding::kStochastic
                            ? RngWord(params.key, static_cast<uint32_t>(index))
                            : 0u;
  return static_cast<int8_t>(
      Clamp(RoundShift(accumulator, params.shift, params.rounding, word), params.low, params.high));
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_NITI_ROUNDING_H_
