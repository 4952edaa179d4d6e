#include "micro_ops/core/elementwise.h"

#include "micro_ops/core/fixed_point.h"

namespace tflm_train {
namespace {

// Bits an input of ADD is shifted up before its scaling, so that the sum keeps a fraction.
constexpr int32_t kAddLeftShift = 20;

int32_t DimensionFromBack(const int32_t* dims, int32_t rank, int32_t i) {
  return i < rank ? dims[rank - 1 - i] : 1;
}

template <typename Op>
void Broadcast(const BroadcastShape& s, const int8_t* a, const int8_t* b, int8_t* out, Op op) {
  int32_t index[kMaxRank] = {0};
  const int32_t last = s.rank - 1;
  const int32_t count = s.rank > 0 ? s.size[last] : 1;
  const int32_t step1 = s.rank > 0 ? s.step1[last] : 0;
  const int32_t step2 = s.rank > 0 ? s.step2[last] : 0;
  for (;;) {
    for (int32_t i = 0; i < count; ++i) *out++ = op(a[i * step1], b[i * step2]);
    int32_t d = last - 1;
    for (; d >= 0; --d) {
      a += s.step1[d];
      b += s.step2[d];
      if (++index[d] < s.size[d]) break;
      a -= s.step1[d] * s.size[d];
      b -= s.step2[d] * s.size[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

bool MakeBroadcastShape(const int32_t* dims1, int32_t rank1, const int32_t* dims2, int32_t rank2,
                        BroadcastShape* shape) {
  const int32_t rank = rank1 > rank2 ? rank1 : rank2;
  if (rank > kMaxRank) return false;
  bool same = true;
  int32_t stride1 = 1, stride2 = 1;
  shape->rank = rank;
  for (int32_t i = 0; i < rank; ++i) {
    const int32_t d1 = DimensionFromBack(dims1, rank1, i);
    const int32_t d2 = DimensionFromBack(dims2, rank2, i);
    if (d1 != d2 && d1 != 1 && d2 != 1) return false;
    if (d1 != d2) same = false;
    shape->size[rank - 1 - i] = d1 == 1 ? d2 : d1;
    shape->step1[rank - 1 - i] = d1 == 1 ? 0 : stride1;
    shape->step2[rank - 1 - i] = d2 == 1 ? 0 : stride2;
    stride1 *= d1;
    stride2 *= d2;
  }
  if (same && rank > 0) {  // one long row instead of a nest
    shape->rank = 1;
    shape->size[0] = stride1;
    shape->step1[0] = 1;
    shape->step2[0] = 1;
  }
  return true;
}

void AddInt8(const AddParams& p, const BroadcastShape& shape, const int8_t* input1,
             const int8_t* input2, int8_t* output) {
  Broadcast(shape, input1, input2, output, [&p](int8_t a, int8_t b) {
    const int32_t scaled1 =
        MultiplyByQuantizedMultiplier(WrapMul(a + p.input1_offset, int32_t{1} << kAddLeftShift),
                                      p.input1_multiplier, p.input1_shift);
    const int32_t scaled2 =
        MultiplyByQuantizedMultiplier(WrapMul(b + p.input2_offset, int32_t{1} << kAddLeftShift),
                                      p.input2_multiplier, p.input2_shift);
    return RequantizeSum(WrapAdd(scaled1, scaled2), p.output_multiplier, p.output_shift,
                         p.output_offset, p.activation_min, p.activation_max);
  });
}

void MulInt8(const MulParams& p, const BroadcastShape& shape, const int8_t* input1,
             const int8_t* input2, int8_t* output) {
  Broadcast(shape, input1, input2, output, [&p](int8_t a, int8_t b) {
    return RequantizeSum((a + p.input1_offset) * (b + p.input2_offset), p.multiplier, p.shift,
                         p.output_offset, p.activation_min, p.activation_max);
  });
}

}  // namespace tflm_train
