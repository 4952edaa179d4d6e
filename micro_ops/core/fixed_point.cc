#include "micro_ops/core/fixed_point.h"

namespace tflm_train {
namespace {

// exp(a) for a in [-1/4, 0): a Taylor polynomial of degree 4 around -1/8.
int32_t ExpOnQuarter(int32_t a) {
  constexpr int32_t kExpOfMinusEighth = 1895147668;  // exp(-1/8) * 2^31
  constexpr int32_t kOneThird = 715827883;           // 1/3 * 2^31
  const int32_t x = WrapAdd(a, int32_t{1} << 28);
  const int32_t x2 = DoublingHighMul(x, x);
  const int32_t x3 = DoublingHighMul(x2, x);
  const int32_t x4 = DoublingHighMul(x2, x2);
  const int32_t x4_over_4 = RoundingShiftRight(x4, 2);
  const int32_t higher_terms =
      RoundingShiftRight(WrapAdd(DoublingHighMul(WrapAdd(x4_over_4, x3), kOneThird), x2), 1);
  return WrapAdd(kExpOfMinusEighth, DoublingHighMul(kExpOfMinusEighth, WrapAdd(x, higher_terms)));
}

}  // namespace

int32_t ExpOnNegative(int32_t a, int32_t integer_bits) {
  // exp(-2^e) * 2^31 for e = -2 .. 4: one factor for each bit of the part below a multiple of 1/4.
  static constexpr int32_t kFactors[] = {1672461947, 1302514674, 790015084, 290630308,
                                         39332535,   720401,     242};
  if (a == 0) return INT32_MAX;
  const int32_t fraction_bits = 31 - integer_bits;
  const int32_t quarter = int32_t{1} << (fraction_bits - 2);
  const int32_t a_mod_quarter = (a & (quarter - 1)) - quarter;
  int32_t result = ExpOnQuarter(SaturatingShiftLeft(a_mod_quarter, integer_bits));
  const uint32_t remainder = static_cast<uint32_t>(a_mod_quarter) - static_cast<uint32_t>(a);
  for (int32_t e = -2; e < integer_bits; ++e) {
    if (remainder & (uint32_t{1} << (fraction_bits + e))) {
      result = DoublingHighMul(result, kFactors[e + 2]);
    }
  }
  return result;
}

int32_t OneOverOnePlus(int32_t a) {
  constexpr int32_t k48Over17 = 1515870810;        // 48/17 with 2 integer bits
  constexpr int32_t kMinus32Over17 = -1010580540;  // -32/17 with 2 integer bits
  constexpr int32_t kOne = int32_t{1} << 29;       // 1 with 2 integer bits
  // (a + 1) / 2 rounded away from zero, in no integer bits.
  const int64_t sum = static_cast<int64_t>(a) + INT32_MAX;
  const int32_t half_denominator = static_cast<int32_t>((sum + (sum >= 0 ? 1 : -1)) / 2);
  int32_t x = WrapAdd(k48Over17, DoublingHighMul(half_denominator, kMinus32Over17));
  for (int i = 0; i < 3; ++i) {
    const int32_t error = WrapAdd(kOne, -DoublingHighMul(half_denominator, x));
    x = WrapAdd(x, SaturatingShiftLeft(DoublingHighMul(x, error), 2));
  }
  return SaturatingShiftLeft(x, 1);
}

int32_t Logistic(int32_t a) {
  if (a == 0) return int32_t{1} << 30;
  const int32_t magnitude = a > 0 ? a : WrapMul(a, -1);
  const int32_t positive = OneOverOnePlus(ExpOnNegative(WrapMul(magnitude, -1), 4));
  return a > 0 ? positive : INT32_MAX - positive;
}

}  // namespace tflm_train
