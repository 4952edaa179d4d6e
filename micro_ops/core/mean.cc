#include "micro_ops/core/mean.h"

#include "micro_ops/core/fixed_point.h"

namespace tflm_train {
namespace {

// Walks all positions of a nest of dimensions, the last fastest.
class Walk {
 public:
  Walk(int32_t rank, const int32_t* size, const int32_t* step)
      : rank_(rank), size_(size), step_(step) {}
  int32_t offset() const { return offset_; }
  bool Next() {
    for (int32_t d = rank_ - 1; d >= 0; --d) {
      offset_ += step_[d];
      if (++index_[d] < size_[d]) return true;
      offset_ -= step_[d] * size_[d];
      index_[d] = 0;
    }
    return false;
  }

 private:
  int32_t rank_;
  const int32_t* size_;
  const int32_t* step_;
  int32_t index_[kMaxRank] = {0};
  int32_t offset_ = 0;
};

}  // namespace

void MakeMeanShape(const int32_t* dims, int32_t rank, uint32_t axes, MeanParams* params) {
  int32_t steps[kMaxRank];
  for (int32_t d = rank - 1, step = 1; d >= 0; --d) {
    steps[d] = step;
    step *= dims[d];
  }
  params->kept_rank = 0;
  params->reduced_rank = 0;
  for (int32_t d = 0; d < rank; ++d) {
    const bool reduced = (axes >> d) & 1u;
    int32_t* count = reduced ? &params->reduced_rank : &params->kept_rank;
    (reduced ? params->reduced_size : params->kept_size)[*count] = dims[d];
    (reduced ? params->reduced_step : params->kept_step)[*count] = steps[d];
    ++*count;
  }
}

void MeanScale(int32_t multiplier, int32_t shift, int32_t count, MeanParams* params) {
  // Scaled up by the largest power of two below `count` first, as far as `shift` leaves room.
  int32_t up = 31 - CountLeadingZeros(static_cast<uint32_t>(count));
  if (up > 31 + shift) up = 31 + shift;
  params->multiplier = static_cast<int32_t>((static_cast<int64_t>(multiplier) << up) / count);
  params->shift = shift - up;
}

void MeanInt8(const MeanParams& p, const int8_t* input, int8_t* output) {
  int32_t count = 1;
  for (int32_t d = 0; d < p.reduced_rank; ++d) count *= p.reduced_size[d];
  Walk kept(p.kept_rank, p.kept_size, p.kept_step);
  do {
    const int8_t* first = input + kept.offset();
    int32_t sum = 0;
    Walk reduced(p.reduced_rank, p.reduced_size, p.reduced_step);
    do sum += first[reduced.offset()];
    while (reduced.Next());
    *output++ = RequantizeSum(sum - p.input_zero_point * count, p.multiplier, p.shift,
                              p.output_zero_point, INT8_MIN, INT8_MAX);
  } while (kept.Next());
}

}  // namespace tflm_train
