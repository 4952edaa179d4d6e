// Python names of the zeroth-order kernels in micro_ops/core/zo_*.h, sizes checked here.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "micro_ops/core/counter_rng.h"
#include "micro_ops/core/zo_coefficients.h"
#include "micro_ops/core/zo_loss.h"
#include "micro_ops/core/zo_perturb.h"
#include "micro_ops/core/zo_update.h"
#include "micro_ops/host/arrays.h"

namespace nb = nanobind;

namespace tflm_train {
namespace {

void Require(bool ok, const std::string& message) {
  if (!ok) throw std::invalid_argument(message);
}

Out<uint32_t> Words(uint32_t seed, uint32_t step, uint32_t stream, uint32_t first_block,
                    uint32_t count) {
  uint32_t* words;
  auto result = NewArray<uint32_t>({count}, &words);
  const uint32_t key = RngKey(seed, step, stream);
  for (uint32_t i = 0; i < count; ++i) words[i] = RngWord(key, first_block + i);
  return result;
}

template <typename T>
void Perturb(InOut<T> w, uint32_t seed, uint32_t step, uint32_t k, uint32_t first_block,
             int32_t delta) {
  const uint32_t key = RngKey(seed, step, k);
  const uint32_t size = static_cast<uint32_t>(w.size());
  if constexpr (sizeof(T) == 1) {
    ZoPerturbInt8(w.data(), size, key, first_block, delta);
  } else {
    ZoPerturbInt32(w.data(), size, key, first_block, delta);
  }
}

Out<int64_t> CrossEntropy(In<int8_t> logits, In<int32_t> labels, int32_t mult) {
  Require(logits.ndim() == 2 && labels.ndim() == 1 && logits.shape(0) == labels.shape(0),
          "Expected logits [n, classes] and labels [n]");
  const int32_t classes = static_cast<int32_t>(logits.shape(1));
  Require(classes >= 1 && classes <= kZoMaxClasses, "Expected 1 to 4095 classes");
  Require(mult >= 1 && mult <= kZoMaxLossMult, "Expected a loss multiplier of 1 to 2^23 - 1");
  for (size_t i = 0; i < labels.size(); ++i) {
    Require(labels.data()[i] >= 0 && labels.data()[i] < classes,
            "Expected labels of 0 to " + std::to_string(classes - 1) + ", got " +
                std::to_string(labels.data()[i]) + " at sample " + std::to_string(i));
  }
  int64_t* losses;
  auto result = NewArray<int64_t>({logits.shape(0)}, &losses);
  for (size_t i = 0; i < labels.size(); ++i) {
    losses[i] = ZoCrossEntropy(logits.data() + i * classes, classes, labels.data()[i], mult);
  }
  return result;
}

Out<int64_t> SquaredError(In<int8_t> output, In<int8_t> target) {
  Require(output.ndim() >= 1 && output.size() == target.size() && output.size() > 0 &&
              output.shape(0) == target.shape(0),
          "Expected outputs and targets of one shape");
  const size_t n = output.shape(0), size = output.size() / n;
  int64_t* losses;
  auto result = NewArray<int64_t>({n}, &losses);
  for (size_t i = 0; i < n; ++i) {
    losses[i] = ZoSquaredError(output.data() + i * size, target.data() + i * size,
                               static_cast<int32_t>(size));
  }
  return result;
}

Out<int32_t> Differences(int32_t estimator, int64_t base, In<int64_t> plus,
                         std::optional<In<int64_t>> minus) {
  const int32_t q = static_cast<int32_t>(plus.size());
  Require(estimator >= 0 && estimator <= 2, "Expected estimator 0, 1 or 2");
  Require(q >= (estimator == 1 ? 2 : 1) && q <= kZoMaxQ,
          "Expected 1 to 128 losses (2 at least for leave_one_out)");
  Require(estimator != 2 || (minus && minus->size() == plus.size()),
          "Expected as many minus losses as plus losses");
  int32_t* d;
  auto result = NewArray<int32_t>({plus.size()}, &d);
  ZoDifferences(static_cast<ZoEstimator>(estimator), base, plus.data(),
                minus ? minus->data() : nullptr, q, d);
  return result;
}

std::tuple<Out<int32_t>, uint64_t> CoefficientsRms(In<int32_t> d, uint32_t lr_q16,
                                                   uint64_t mean_square) {
  Require(d.size() >= 1 && d.size() <= kZoMaxQ, "Expected 1 to 128 differences");
  Require(lr_q16 <= (1u << 24), "Expected a learning rate of at most 256 weight steps");
  int32_t* a;
  auto result = NewArray<int32_t>({d.size()}, &a);
  ZoCoefficientsRms(d.data(), static_cast<int32_t>(d.size()), lr_q16, &mean_square, a);
  return {result, mean_square};
}

Out<int32_t> CoefficientsRaw(In<int32_t> d, uint32_t multiplier) {
  int32_t* a;
  auto result = NewArray<int32_t>({d.size()}, &a);
  ZoCoefficientsRaw(d.data(), static_cast<int32_t>(d.size()), multiplier, a);
  return result;
}

// One entry for every kind of update; which one follows from the dtypes of w and shadow.
template <typename W, typename Shadow>
uint32_t Update(InOut<W> w, std::optional<InOut<Shadow>> shadow,
                std::optional<InOut<int32_t>> momentum, In<int32_t> coefficients, uint32_t seed,
                uint32_t step, int32_t beta_q8, int32_t unit, int32_t limit,
                uint32_t first_sign_block, uint32_t first_rounding_block) {
  Require(coefficients.size() <= kZoMaxQ, "Expected at most 128 coefficients");
  Require(beta_q8 >= 0 && beta_q8 <= 255, "Expected beta_q8 of 0 to 255");
  Require(!momentum || momentum->size() == w.size(), "Expected one momentum per weight");
  Require(!shadow || shadow->size() == w.size(), "Expected one shadow per weight");
  const ZoUpdateParams params = {seed,
                                 step,
                                 coefficients.data(),
                                 static_cast<int32_t>(coefficients.size()),
                                 beta_q8,
                                 unit,
                                 limit,
                                 first_sign_block,
                                 first_rounding_block};
  const uint32_t size = static_cast<uint32_t>(w.size());
  int32_t* m = momentum ? momentum->data() : nullptr;
  if constexpr (sizeof(W) == 4) {
    return ZoUpdateInt32(params, w.data(), m, size);
  } else if constexpr (std::is_same_v<Shadow, float>) {
    return ZoUpdateFloatShadow(params, w.data(), shadow->data(), m, size);
  } else {
    return shadow ? ZoUpdateInt16Shadow(params, w.data(), shadow->data(), m, size)
                  : ZoUpdateInt8(params, w.data(), m, size);
  }
}

template <typename W, typename Shadow>
void BindUpdate(nb::module_& m) {
  m.def("zo_update", &Update<W, Shadow>, nb::arg("w").noconvert(),
        nb::arg("shadow").noconvert().none(), nb::arg("momentum").noconvert().none(),
        nb::arg("coefficients"), nb::arg("seed"), nb::arg("step"), nb::arg("beta_q8"),
        nb::arg("unit"), nb::arg("limit"), nb::arg("first_sign_block"),
        nb::arg("first_rounding_block"));
}

}  // namespace

void BindZo(nb::module_& m) {
  m.attr("ROUNDING_STREAM") = kRoundingStream;
  m.attr("ZO_MAX_Q") = kZoMaxQ;
  m.attr("ZO_MAX_LOSS_MULT") = kZoMaxLossMult;
  m.attr("ZO_MAX_CLASSES") = kZoMaxClasses;
  m.def("rng_words", &Words, nb::arg("seed"), nb::arg("step"), nb::arg("stream"),
        nb::arg("first_block"), nb::arg("count"));
  m.def("zo_perturb", &Perturb<int8_t>, nb::arg("w").noconvert(), nb::arg("seed"), nb::arg("step"),
        nb::arg("k"), nb::arg("first_block"), nb::arg("delta"));
  m.def("zo_perturb", &Perturb<int32_t>, nb::arg("w").noconvert(), nb::arg("seed"), nb::arg("step"),
        nb::arg("k"), nb::arg("first_block"), nb::arg("delta"));
  m.def("zo_cross_entropy", &CrossEntropy, nb::arg("logits"), nb::arg("labels"), nb::arg("mult"));
  m.def("zo_squared_error", &SquaredError, nb::arg("output"), nb::arg("target"));
  m.def("zo_differences", &Differences, nb::arg("estimator"), nb::arg("base"), nb::arg("plus"),
        nb::arg("minus").none());
  m.def("zo_coefficients_rms", &CoefficientsRms, nb::arg("d"), nb::arg("lr_q16"),
        nb::arg("mean_square"));
  m.def("zo_coefficients_raw", &CoefficientsRaw, nb::arg("d"), nb::arg("multiplier"));
  m.def("zo_cosine_decay", &ZoCosineDecay, nb::arg("lr_q16"), nb::arg("step"), nb::arg("total"));
  m.def("zo_square_root", &ZoSquareRoot, nb::arg("v"));
  BindUpdate<int8_t, int16_t>(m);
  BindUpdate<int8_t, float>(m);
  BindUpdate<int32_t, int16_t>(m);
}

}  // namespace tflm_train
