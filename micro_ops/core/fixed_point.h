// Fixed-point primitives every int8 kernel shares, with the roundings TFLM's reference kernels use:
// a high product rounded to nearest (ties up) and then a shift rounded to nearest (ties away from
// zero). "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
// Inference", Section 2.2, fixes the representation; the gemmlowp functions fix the roundings.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_FIXED_POINT_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_FIXED_POINT_H_

#include <cstdint>

namespace tflm_train {

// Sum and product modulo 2^32: what a 32-bit machine computes, without undefined behaviour.
inline int32_t WrapAdd(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
inline int32_t WrapMul(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

inline int32_t Clamp(int32_t value, int32_t low, int32_t high) {
  return value < low ? low : value > high ? high : value;
}

// round(a * b / 2^31), ties up; the one product that does not fit saturates.
inline int32_t DoublingHighMul(int32_t a, int32_t b) {
  if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;
  return static_cast<int32_t>((static_cast<int64_t>(a) * b + (int64_t{1} << 30)) >> 31);
}

// round(x / 2^exponent), ties away from zero; 0 <= exponent <= 31.
inline int32_t RoundingShiftRight(int32_t x, int32_t exponent) {
  const int32_t mask = static_cast<int32_t>((uint32_t{1} << exponent) - 1u);
  const int32_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
  return (x >> exponent) + ((x & mask) > threshold ? 1 : 0);
}

// x * 2^exponent, saturated; 0 <= exponent <= 30.
inline int32_t SaturatingShiftLeft(int32_t x, int32_t exponent) {
  const int32_t threshold = static_cast<int32_t>((uint32_t{1} << (31 - exponent)) - 1u);
  if (x > threshold) return INT32_MAX;
  if (x < -threshold) return INT32_MIN;
  return static_cast<int32_t>(static_cast<uint32_t>(x) << exponent);
}

// x * multiplier * 2^(shift - 31) with both roundings; -31 <= shift <= 30.
inline int32_t MultiplyByQuantizedMultiplier(int32_t x, int32_t multiplier, int32_t shift) {
  const int32_t left = shift > 0 ? shift : 0;
  const int32_t right = shift > 0 ? 0 : -shift;
  return RoundingShiftRight(
      DoublingHighMul(static_cast<int32_t>(static_cast<uint32_t>(x) << left), multiplier), right);
}

// Requantises an accumulator to an int8 output.
inline int8_t RequantizeSum(int32_t acc, int32_t multiplier, int32_t shift, int32_t offset,
                            int32_t low, int32_t high) {
  return static_cast<int8_t>(
      Clamp(WrapAdd(MultiplyByQuantizedMultiplier(acc, multiplier, shift), offset), low, high));
}

// Fixed point with `integer_bits` before the binary point and a sign: raw = value * 2^(31 - bits).

// exp(a) for a <= 0 with 4 or 5 integer bits; the result has none (INT32_MAX stands for 1).
int32_t ExpOnNegative(int32_t a, int32_t integer_bits);

// 1 / (1 + a) for a in [0, 1), no integer bits in and out: three Newton-Raphson steps.
int32_t OneOverOnePlus(int32_t a);

// 1 / (1 + exp(-a)) with 4 integer bits in and none out.
int32_t Logistic(int32_t a);

// Leading zeros of a non-zero word.
inline int32_t CountLeadingZeros(uint32_t x) {
  int32_t n = 0;
  for (; !(x & 0x80000000u); x <<= 1) ++n;
  return n;
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_FIXED_POINT_H_
