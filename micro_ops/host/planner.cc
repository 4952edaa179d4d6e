#include "micro_ops/host/planner.h"

#include <algorithm>

namespace tflm_train {

size_t PlanArena(size_t alignment, std::vector<Lifetime>* tensors) {
  std::vector<Lifetime*> order;
  for (Lifetime& t : *tensors) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(),
                   [](const Lifetime* a, const Lifetime* b) { return a->bytes > b->bytes; });
  std::vector<const Lifetime*> placed;  // by offset
  size_t size = 0;
  for (Lifetime* t : order) {
    size_t offset = 0;
    for (const Lifetime* other : placed) {
      if (other->last < t->first || t->last < other->first) continue;
      if (offset + t->bytes <= other->offset) break;
      const size_t end = (other->offset + other->bytes + alignment - 1) / alignment * alignment;
      offset = std::max(offset, end);
    }
    t->offset = offset;
    placed.insert(std::upper_bound(
                      placed.begin(), placed.end(), t,
                      [](const Lifetime* a, const Lifetime* b) { return a->offset < b->offset; }),
                  t);
    size = std::max(size, offset + t->bytes);
  }
  return (size + alignment - 1) / alignment * alignment;
}

}  // namespace tflm_train
