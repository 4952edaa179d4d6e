// Arrays given for activations, checked against the model.
#include <stdexcept>
#include <string>

#include "micro_ops/host/bind_engine.h"

namespace nb = nanobind;

namespace tflm_train {

std::string ShapeText(const std::vector<size_t>& shape, bool any_samples) {
  std::string text = any_samples ? "[n" : "[";
  for (size_t i = any_samples ? 1 : 0; i < shape.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::vector<size_t> BatchShape(const Tensor& tensor, int32_t samples) {
  std::vector<size_t> shape(tensor.shape.begin(), tensor.shape.end());
  if (shape.empty()) shape.push_back(1);
  shape[0] *= static_cast<size_t>(samples);
  return shape;
}

FeedArrays::FeedArrays(const Model& model, nb::dict feeds) {
  for (auto [key, value] : feeds) Add(model, nb::cast<int32_t>(key), value);
}

void FeedArrays::Add(const Model& model, int32_t index, nb::handle value) {
  if (index < 0 || index >= static_cast<int64_t>(model.tensors.size()) ||
      model.tensors[index].constant) {
    throw std::invalid_argument("Expected the index of an activation, got " +
                                std::to_string(index));
  }
  const Tensor& tensor = model.tensors[index];
  const std::vector<size_t> one = BatchShape(tensor, 1);
  In<int8_t> array;
  if (!nb::try_cast(value, array, false)) {
    throw std::invalid_argument("Expected a C-contiguous int8 array " + ShapeText(one, true) +
                                " for " + model.Describe(index));
  }
  std::vector<size_t> shape(array.ndim());
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = array.shape(i);
  bool fits = shape.size() == one.size() && !shape.empty() && shape[0] % one[0] == 0;
  for (size_t i = 1; fits && i < one.size(); ++i) fits = shape[i] == one[i];
  if (!fits) {
    throw std::invalid_argument("Expected int8 " + ShapeText(one, true) + " for " +
                                model.Describe(index) + ", got " + ShapeText(shape, false));
  }
  const size_t samples = shape[0] / one[0];
  if (samples > INT32_MAX || (!feeds_.empty() && static_cast<int32_t>(samples) != samples_)) {
    throw std::invalid_argument("Expected " + std::to_string(samples_) + " samples for " +
                                model.Describe(index) + ", got " + std::to_string(samples));
  }
  samples_ = static_cast<int32_t>(samples);
  feeds_.push_back({index, array.data()});
  arrays_.push_back(array);
}

}  // namespace tflm_train
