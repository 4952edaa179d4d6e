// Array types of the binding: contiguous NumPy arrays, checked by nanobind before a kernel sees
// them.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_ARRAYS_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_ARRAYS_H_

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace tflm_train {

// Read-only input of any shape.
template <typename T>
using In = nanobind::ndarray<const T, nanobind::c_contig, nanobind::device::cpu>;

// Array that a kernel changes in place.
template <typename T>
using InOut = nanobind::ndarray<T, nanobind::c_contig, nanobind::device::cpu>;

template <typename T>
using Out = nanobind::ndarray<nanobind::numpy, T, nanobind::c_contig>;

// A new NumPy array of `shape` that owns its memory; *data points to it, not cleared.
template <typename T>
Out<T> NewArray(const std::vector<size_t>& shape, T** data) {
  size_t size = 1;
  for (size_t d : shape) size *= d;
  T* memory = new T[size ? size : 1];
  nanobind::capsule owner(memory, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  *data = memory;
  return Out<T>(memory, shape.size(), shape.data(), owner);
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_ARRAYS_H_
