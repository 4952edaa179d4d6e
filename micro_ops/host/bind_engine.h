// What the bindings of the engine and of its trainers share.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_BIND_ENGINE_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_BIND_ENGINE_H_

#include <string>
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

// "[n, 28, 28, 1]" or, with the first dimension as it is, "[1, 28, 28, 1]".
std::string ShapeText(const std::vector<size_t>& shape, bool any_samples);

// Shape of an array with `samples` samples of a tensor: the first dimension grows; a scalar gets
// one.
std::vector<size_t> BatchShape(const Tensor& tensor, int32_t samples);

// Adds the training methods to the class.
void BindZoEngine(nanobind::class_<Engine>& engine);

// Throws std::invalid_argument unless `tensor` is an activation.
void CheckActivation(const Engine& engine, int32_t tensor);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_BIND_ENGINE_H_
