// Places activations in one arena: tensors that never live together share bytes.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_PLANNER_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tflm_train {

struct Lifetime {
  int32_t tensor;
  size_t bytes;
  int32_t first, last;  // operators between which the tensor must keep its place, inclusive
  size_t offset;        // set by PlanArena
};

// Greedy by size, the largest first, each at the lowest place that is free over its lifetime
// ("Efficient Memory Management for Deep Neural Net Inference", Section 5.2). Returns the size of
// the arena.
size_t PlanArena(size_t alignment, std::vector<Lifetime>* tensors);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_PLANNER_H_
