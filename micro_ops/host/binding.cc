// The module tflm_train._native. Each part of the engine registers its own Python names, so that a
// new part adds one declaration and one line here.
#include <nanobind/nanobind.h>

namespace tflm_train {
void BindEngine(nanobind::module_& m);
void BindPriot(nanobind::module_& m);
void BindZo(nanobind::module_& m);
}  // namespace tflm_train

NB_MODULE(_native, m) {
  m.doc() = "Native int8 kernels and engine of tflm-train.";
  tflm_train::BindEngine(m);
  tflm_train::BindPriot(m);
  tflm_train::BindZo(m);
}
