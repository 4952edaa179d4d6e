// Engine.zo_losses and Engine.zo_train: arguments checked here, once.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "micro_ops/host/bind_engine.h"
#include "micro_ops/host/zo_engine.h"

namespace nb = nanobind;

namespace tflm_train {
namespace {

using TrainableList = std::vector<std::tuple<int32_t, int32_t, int32_t>>;

void Require(bool ok, const std::string& expectation) {
  if (!ok) throw std::invalid_argument("Expected " + expectation);
}

ZoEstimator ParseEstimator(const std::string& name) {
  if (name == "one_sided") return ZoEstimator::kOneSided;
  if (name == "leave_one_out") return ZoEstimator::kLeaveOneOut;
  if (name == "two_sided") return ZoEstimator::kTwoSided;
  throw std::invalid_argument(
      "Expected estimator 'one_sided', 'leave_one_out' or 'two_sided', got '" + name + "'");
}

ZoProblem MakeProblem(int32_t first_op, int32_t logits, const std::string& loss, int32_t mult,
                      const TrainableList& trainable, uint32_t seed, int32_t mu,
                      const std::string& estimator) {
  Require(loss == "cross_entropy" || loss == "squared_error",
          "loss 'cross_entropy' or 'squared_error', got '" + loss + "'");
  ZoProblem problem = {first_op,
                       logits,
                       loss == "cross_entropy" ? ZoLoss::kCrossEntropy : ZoLoss::kSquaredError,
                       mult,
                       {},
                       seed,
                       mu,
                       ParseEstimator(estimator)};
  for (const auto& [tensor, unit, limit] : trainable) {
    problem.trainable.push_back({tensor, unit, limit});
  }
  return problem;
}

// Features and targets, held while they are read.
class BatchArrays {
 public:
  BatchArrays(const Model& model, const ZoProblem& problem, nb::dict feeds, nb::handle targets)
      : feeds_(model, feeds) {
    batch_ = {feeds_.feeds(), nullptr, nullptr, feeds_.samples()};
    if (problem.loss == ZoLoss::kCrossEntropy) {
      Require(nb::try_cast(targets, labels_, false) && labels_.ndim() == 1 &&
                  labels_.size() == static_cast<size_t>(batch_.samples),
              "int32 labels [" + std::to_string(batch_.samples) + "] as targets");
      batch_.labels = labels_.data();
    } else {
      const size_t outputs = static_cast<size_t>(model.tensors[problem.logits].elements);
      Require(nb::try_cast(targets, values_, false) &&
                  values_.size() == outputs * static_cast<size_t>(batch_.samples),
              "int8 targets of " + std::to_string(outputs) + " values for each of " +
                  std::to_string(batch_.samples) + " samples");
      batch_.targets = values_.data();
    }
  }
  const ZoBatch& batch() const { return batch_; }

 private:
  FeedArrays feeds_;
  In<int32_t> labels_;
  In<int8_t> values_;
  ZoBatch batch_ = {};
};

template <typename T>
nb::object ToArray(const std::vector<T>& values, const std::vector<size_t>& shape) {
  T* data;
  auto array = NewArray<T>(shape, &data);
  if (!values.empty()) std::memcpy(data, values.data(), values.size() * sizeof(T));
  return nb::cast(array);
}

nb::tuple Losses(Engine& engine, nb::dict feeds, int32_t first_op, int32_t logits_index,
                 nb::object targets, const std::string& loss, int32_t mult,
                 const TrainableList& trainable, uint32_t seed, uint32_t step, int32_t q,
                 int32_t mu, const std::string& estimator) {
  engine.CheckTensor(logits_index);
  const ZoProblem problem =
      MakeProblem(first_op, logits_index, loss, mult, trainable, seed, mu, estimator);
  const BatchArrays arrays(engine.model(), problem, feeds, targets);
  ZoLosses losses;
  {
    nb::gil_scoped_release release;
    const std::unique_lock<std::shared_mutex> lock(engine.mutex());
    ZoEngine zo(&engine, problem);
    zo.CheckBatch(arrays.batch());
    zo.Losses(arrays.batch(), step, q, &losses);
  }
  const bool one_sided = problem.estimator == ZoEstimator::kOneSided;
  return nb::make_tuple(
      one_sided ? nb::cast(losses.base) : nb::none(), ToArray(losses.plus, {losses.plus.size()}),
      losses.minus.empty() ? nb::none() : ToArray(losses.minus, {losses.minus.size()}));
}

// Momentum and shadow of each tensor, held while they are written.
class StateArrays {
 public:
  // No implicit conversion: state is changed in place, and a converted copy would be lost.
  StateArrays(const Model& model, const ZoProblem& problem, nb::list momentum, nb::list shadow,
              int32_t beta_q8) {
    const size_t count = problem.trainable.size();
    Require(nb::len(momentum) == count && nb::len(shadow) == count,
            std::to_string(count) + " momentum and shadow entries (an array or None each)");
    for (size_t i = 0; i < count; ++i) {
      const Tensor& tensor = model.tensors[problem.trainable[i].tensor];
      const size_t size = static_cast<size_t>(tensor.elements);
      const std::string where = " for " + model.Describe(problem.trainable[i].tensor);
      ZoTensorState state;
      if (!momentum[i].is_none()) {
        Require(
            nb::try_cast(momentum[i], Next(&momentum_), false) && momentum_.back().size() == size,
            "int32 momentum of " + std::to_string(size) + " values" + where);
        state.momentum = momentum_.back().data();
      }
      Require(beta_q8 == 0 || state.momentum != nullptr, "a momentum array" + where);
      if (!shadow[i].is_none()) {
        Require(tensor.type == TensorType::kInt8, "no shadow" + where);
        if (nb::try_cast(shadow[i], Next(&int16_), false) && int16_.back().size() == size) {
          state.int16_shadow = int16_.back().data();
        } else {
          Require(nb::try_cast(shadow[i], Next(&float_), false) && float_.back().size() == size,
                  "an int16 or float32 shadow of " + std::to_string(size) + " values" + where);
          state.float_shadow = float_.back().data();
        }
      }
      states_.push_back(state);
    }
  }
  const std::vector<ZoTensorState>& states() const { return states_; }

 private:
  template <typename T>
  static T& Next(std::vector<T>* list) {
    list->emplace_back();
    return list->back();
  }

  std::vector<InOut<int32_t>> momentum_;
  std::vector<InOut<int16_t>> int16_;
  std::vector<InOut<float>> float_;
  std::vector<ZoTensorState> states_;
};

nb::dict Train(Engine& engine, nb::dict feeds, int32_t first_op, int32_t logits_index,
               nb::object targets, const std::string& loss, int32_t mult,
               const TrainableList& trainable, uint32_t seed, uint32_t first_step, int32_t q,
               int32_t mu, const std::string& estimator, In<int32_t> indices, int32_t batch_size,
               const std::string& normalize, In<uint32_t> rates, int32_t beta_q8, nb::list momentum,
               nb::list shadow, uint64_t mean_square) {
  engine.CheckTensor(logits_index);
  const ZoProblem problem =
      MakeProblem(first_op, logits_index, loss, mult, trainable, seed, mu, estimator);
  for (const ZoTrainable& t : problem.trainable) engine.CheckTensor(t.tensor);
  const BatchArrays arrays(engine.model(), problem, feeds, targets);
  const StateArrays states(engine.model(), problem, momentum, shadow, beta_q8);
  Require(q >= 1 && q <= kZoMaxQ, "q of 1 to 128, got " + std::to_string(q));
  Require(batch_size >= 1, "a batch size of 1 or more, got " + std::to_string(batch_size));
  Require(beta_q8 >= 0 && beta_q8 <= 255, "beta_q8 of 0 to 255, got " + std::to_string(beta_q8));
  Require(normalize == "rms" || normalize == "raw",
          "normalize 'rms' or 'raw', got '" + normalize + "'");
  const size_t steps = (indices.size() + static_cast<size_t>(batch_size) - 1) / batch_size;
  Require(rates.size() == steps,
          std::to_string(steps) + " rates, got " + std::to_string(rates.size()));
  for (size_t i = 0; i < rates.size(); ++i) {
    if (normalize == "raw" || rates.data()[i] <= (1u << 24)) continue;
    throw std::invalid_argument("Expected a learning rate of at most 256 weight steps");
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices.data()[i] >= 0 && indices.data()[i] < arrays.batch().samples) continue;
    throw std::invalid_argument("Expected indices below " + std::to_string(arrays.batch().samples) +
                                ", got " + std::to_string(indices.data()[i]));
  }
  ZoTrace trace;
  trace.mean_square = mean_square;
  {
    nb::gil_scoped_release release;
    const std::unique_lock<std::shared_mutex> lock(engine.mutex());
    ZoEngine zo(&engine, problem);
    zo.CheckBatch(arrays.batch());
    zo.Train(arrays.batch(), indices.data(), static_cast<int64_t>(indices.size()), first_step,
             {q, batch_size, normalize == "rms", rates.data(), beta_q8}, states.states(), &trace);
  }
  nb::dict result;
  result["coefficients"] = ToArray(trace.coefficients, {steps, static_cast<size_t>(q)});
  result["differences"] = ToArray(trace.differences, {steps, static_cast<size_t>(q)});
  result["losses"] = ToArray(trace.losses, {steps});
  result["mean_square"] = trace.mean_square;
  result["saturated"] = trace.saturated;
  return result;
}

}  // namespace

void BindZoEngine(nb::class_<Engine>& engine) {
  engine.def("zo_losses", &Losses, nb::arg("feeds"), nb::arg("first_op"), nb::arg("logits_index"),
             nb::arg("targets"), nb::arg("loss"), nb::arg("mult"), nb::arg("trainable"),
             nb::arg("seed"), nb::arg("step"), nb::arg("q"), nb::arg("mu"), nb::arg("estimator"));
  engine.def("zo_train", &Train, nb::arg("feeds"), nb::arg("first_op"), nb::arg("logits_index"),
             nb::arg("targets"), nb::arg("loss"), nb::arg("mult"), nb::arg("trainable"),
             nb::arg("seed"), nb::arg("first_step"), nb::arg("q"), nb::arg("mu"),
             nb::arg("estimator"), nb::arg("indices").noconvert(), nb::arg("batch_size"),
             nb::arg("normalize"), nb::arg("rates").noconvert(), nb::arg("beta_q8"),
             nb::arg("momentum"), nb::arg("shadow"), nb::arg("mean_square") = 0);
}

}  // namespace tflm_train
