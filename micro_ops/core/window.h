// The part of a filter window that lies inside the image, along one axis.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_WINDOW_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_WINDOW_H_

#include <cstdint>

namespace tflm_train {

struct Window {
  int32_t origin;      // image position of tap 0, may be negative
  int32_t begin, end;  // taps inside the image; begin == end when none is
};

inline Window MakeWindow(int32_t origin, int32_t dilation, int32_t taps, int32_t size) {
  Window w = {origin, 0, taps};
  while (w.begin < taps && origin + w.begin * dilation < 0) ++w.begin;
  while (w.end > w.begin && origin + (w.end - 1) * dilation >= size) --w.end;
  return w;
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_WINDOW_H_
