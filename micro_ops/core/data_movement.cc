#include "micro_ops/core/data_movement.h"

#include <cstring>

namespace tflm_train {
namespace {

void Fill(int8_t** output, int32_t size, int8_t value) {
  std::memset(*output, value, static_cast<size_t>(size));
  *output += size;
}

}  // namespace

void PadInt8(const PadParams& p, const int8_t* input, int8_t* output) {
  if (p.rank == 0) {
    *output = *input;
    return;
  }
  // Output bytes of one step along each dimension.
  int32_t step[kMaxRank];
  const int32_t last = p.rank - 1;
  for (int32_t d = last, size = 1; d >= 0; --d) {
    step[d] = size;
    size *= p.before[d] + p.input_size[d] + p.after[d];
  }
  int32_t index[kMaxRank] = {0};
  for (int32_t d = 0; d < last; ++d) Fill(&output, p.before[d] * step[d], p.value);
  for (;;) {
    Fill(&output, p.before[last], p.value);
    std::memcpy(output, input, static_cast<size_t>(p.input_size[last]));
    output += p.input_size[last];
    input += p.input_size[last];
    Fill(&output, p.after[last], p.value);
    int32_t d = last - 1;
    for (; d >= 0; --d) {
      if (++index[d] < p.input_size[d]) break;
      index[d] = 0;
      Fill(&output, p.after[d] * step[d], p.value);
    }
    if (d < 0) return;
    for (++d; d < last; ++d) Fill(&output, p.before[d] * step[d], p.value);
  }
}

void ConcatenateInt8(int32_t outer, int32_t run, int32_t output_run, const int8_t* input,
                     int8_t* output) {
  for (int32_t i = 0; i < outer; ++i, input += run, output += output_run) {
    std::memcpy(output, input, static_cast<size_t>(run));
  }
}

}  // namespace tflm_train
