// What the bindings of the engine and of its trainers share.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_BIND_ENGINE_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_BIND_ENGINE_H_

#include <vector>

#include "micro_ops/host/arrays.h"
#include "micro_ops/host/engine.h"

namespace tflm_train {

// Arrays given for activations: held while they are read, of one number of samples.
class FeedArrays {
 public:
  FeedArrays() = default;
  FeedArrays(const Model& model, nanobind::dict feeds);
  void Add(const Model& model, int32_t tensor, nanobind::handle array);
  const std::vector<Feed>& feeds() const { return feeds_; }
  int32_t samples() const { return samples_; }

 private:
  std::vector<In<int8_t>> arrays_;
  std::vector<Feed> feeds_;
  int32_t samples_ = 0;
};

// Adds the training methods to the class.
void BindZoEngine(nanobind::class_<Engine>& engine);

// Throws std::invalid_argument unless `tensor` is an activation.
void CheckActivation(const Engine& engine, int32_t tensor);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_BIND_ENGINE_H_
