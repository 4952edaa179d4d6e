// int8 ADD and MUL with NumPy-style broadcasting, as TFLM's reference kernels compute them, bit
// for bit.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_ELEMENTWISE_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_ELEMENTWISE_H_

#include <cstdint>

namespace tflm_train {

constexpr int32_t kMaxRank = 6;

// Output sizes and the step of each input along each output dimension, 0 where it is broadcast.
struct BroadcastShape {
  int32_t rank;
  int32_t size[kMaxRank];
  int32_t step1[kMaxRank];
  int32_t step2[kMaxRank];
};

// Fills *shape for two shapes of at most kMaxRank dimensions; false when they do not broadcast.
bool MakeBroadcastShape(const int32_t* dims1, int32_t rank1, const int32_t* dims2, int32_t rank2,
                        BroadcastShape* shape);

struct AddParams {
  int32_t input1_offset, input2_offset, output_offset;  // -zero point for the inputs
  int32_t input1_multiplier, input1_shift;              // shifts <= 0
  int32_t input2_multiplier, input2_shift;
  int32_t output_multiplier, output_shift;
  int32_t activation_min, activation_max;
};

struct MulParams {
  int32_t input1_offset, input2_offset, output_offset;
  int32_t multiplier, shift;
  int32_t activation_min, activation_max;
};

void AddInt8(const AddParams& params, const BroadcastShape& shape, const int8_t* input1,
             const int8_t* input2, int8_t* output);
void MulInt8(const MulParams& params, const BroadcastShape& shape, const int8_t* input1,
             const int8_t* input2, int8_t* output);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_ELEMENTWISE_H_
