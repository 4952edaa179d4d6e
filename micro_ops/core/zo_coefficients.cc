#include "micro_ops/core/zo_coefficients.h"

#include "micro_ops/core/zo_tables.h"

namespace tflm_train {
namespace {

constexpr int64_t kMaxDifference = int64_t{1} << 30;
constexpr uint64_t kMaxCoefficient = uint64_t{1} << 23;

int32_t Saturate(int64_t d) {
  if (d > kMaxDifference) d = kMaxDifference;
  if (d < -kMaxDifference) d = -kMaxDifference;
  return static_cast<int32_t>(d);
}

uint32_t Magnitude(int32_t d) { return static_cast<uint32_t>(d < 0 ? -d : d); }

int32_t Signed(int32_t sign_of, uint64_t magnitude) {
  if (magnitude > kMaxCoefficient) magnitude = kMaxCoefficient;
  const int32_t a = static_cast<int32_t>(magnitude);
  return sign_of < 0 ? -a : a;
}

}  // namespace

void ZoDifferences(ZoEstimator estimator, int64_t base, const int64_t* plus, const int64_t* minus,
                   int32_t q, int32_t* d) {
  int64_t sum = 0;
  if (estimator == ZoEstimator::kLeaveOneOut) {
    for (int32_t k = 0; k < q; ++k) sum += plus[k];
  }
  for (int32_t k = 0; k < q; ++k) {
    switch (estimator) {
      case ZoEstimator::kOneSided:
        d[k] = Saturate(plus[k] - base);
        break;
      case ZoEstimator::kLeaveOneOut:
        d[k] = Saturate((q * plus[k] - sum) / (q - 1));
        break;
      case ZoEstimator::kTwoSided:
        d[k] = Saturate((plus[k] - minus[k]) / 2);
        break;
    }
  }
}

void ZoCoefficientsRms(const int32_t* d, int32_t q, uint32_t lr_q16, uint64_t* mean_square,
                       int32_t* a) {
  uint64_t now = 0;
  for (int32_t k = 0; k < q; ++k) {
    const uint64_t magnitude = Magnitude(d[k]);
    now += magnitude * magnitude / static_cast<uint32_t>(q);
  }
  if (now == 0) {
    for (int32_t k = 0; k < q; ++k) a[k] = 0;
    return;
  }
  const int64_t before = static_cast<int64_t>(*mean_square);
  *mean_square = before == 0
                     ? now
                     : static_cast<uint64_t>(before + ((static_cast<int64_t>(now) - before) >> 4));
  const uint32_t root = ZoSquareRoot(*mean_square);
  const uint64_t divisor = static_cast<uint64_t>(q) * (root ? root : 1u);
  for (int32_t k = 0; k < q; ++k) {
    a[k] = Signed(d[k], static_cast<uint64_t>(lr_q16) * Magnitude(d[k]) / divisor);
  }
}

void ZoCoefficientsRaw(const int32_t* d, int32_t q, uint32_t multiplier, int32_t* a) {
  for (int32_t k = 0; k < q; ++k) {
    a[k] = Signed(d[k], (static_cast<uint64_t>(Magnitude(d[k])) * multiplier) >> 28);
  }
}

uint32_t ZoCosineDecay(uint32_t lr_q16, uint32_t step, uint32_t total) {
  if (step > total) step = total;
  const uint32_t p = static_cast<uint32_t>((static_cast<uint64_t>(step) << 15) / total);
  const uint32_t i = p >> 8;
  int32_t c = kZoCosineTable[i];
  if (p & 255u) {
    c += ((kZoCosineTable[i + 1] - c) * static_cast<int32_t>(p & 255u)) >> 8;
  }
  return static_cast<uint32_t>((static_cast<uint64_t>(lr_q16) * static_cast<uint32_t>(c)) >> 16);
}

uint32_t ZoSquareRoot(uint64_t v) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 62; bit != 0; bit >>= 2) {
    if (v >= root + bit) {
      v -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return static_cast<uint32_t>(root);
}

}  // namespace tflm_train
