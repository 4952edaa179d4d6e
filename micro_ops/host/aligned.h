// Memory on cache-line boundaries.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_ALIGNED_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_ALIGNED_H_

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace tflm_train {

constexpr size_t kAlignment = 64;

// A fixed number of plain values, zeroed, with 64 readable bytes behind the last: vector loads may
// run over the end.
template <typename T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(size_t size) : size_(size) {
    const size_t bytes = (size * sizeof(T) + 2 * kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(static_cast<T*>(::operator new(bytes, std::align_val_t(kAlignment))));
    std::memset(static_cast<void*>(data_.get()), 0, bytes);
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }

 private:
  struct Delete {
    void operator()(T* p) const { ::operator delete(p, std::align_val_t(kAlignment)); }
  };
  std::unique_ptr<T, Delete> data_;
  size_t size_ = 0;
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_ALIGNED_H_
