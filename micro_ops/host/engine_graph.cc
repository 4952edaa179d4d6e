// The graph side of the engine: is it one that can run, what must run for some fetches, and what
// crosses a cut.
#include <algorithm>
#include <stdexcept>

#include "micro_ops/host/engine.h"
#include "micro_ops/host/planner.h"

namespace tflm_train {

void Engine::CheckGraph() const {
  std::vector<bool> written(model_.tensors.size(), false);
  const auto check_activation = [&](int32_t t) {
    const Tensor& tensor = model_.tensors[t];
    if (tensor.constant) {
      throw ModelError("Expected an activation, got a constant: " + model_.Describe(t));
    }
    if (tensor.type != TensorType::kInt8) {
      throw ModelError(TypeName(static_cast<int32_t>(tensor.type)) + " activations unsupported: " +
                       model_.Describe(t) + ": convert the model to full int8");
    }
    if (tensor.elements < 1) {
      throw ModelError("Expected no size of 0: " + model_.Describe(t));
    }
    if (written[t]) throw ModelError("Expected one writer, got two: " + model_.Describe(t));
  };
  for (int32_t t : model_.inputs) {
    check_activation(t);
    written[t] = true;
  }
  for (size_t i = 0; i < model_.operators.size(); ++i) {
    const Operator& op = model_.operators[i];
    for (int32_t t : op.inputs) {
      if (t >= 0 && !model_.tensors[t].constant && !written[t]) {
        throw ModelError("Expected values in " + model_.Describe(t) + " before operator " +
                         std::to_string(i) + " " + op.name + " reads it, got none");
      }
    }
    for (int32_t t : op.outputs) check_activation(t);
    for (int32_t t : op.outputs) written[t] = true;
  }
  for (int32_t t : model_.outputs) {
    if (!written[t]) {
      throw ModelError("Expected an operator that fills output " + model_.Describe(t));
    }
  }
}

std::unique_ptr<Engine::Plan> Engine::MakePlan(int32_t first, int32_t last,
                                               const std::vector<int32_t>& feeds,
                                               const std::vector<int32_t>& fetches) const {
  const size_t count = model_.tensors.size();
  std::vector<bool> fed(count, false), needed(count, false);
  for (int32_t t : feeds) fed[t] = true;
  for (int32_t t : fetches) needed[t] = true;
  auto plan = std::make_unique<Plan>();
  for (int32_t i = last - 1; i >= first; --i) {
    const Operator& op = model_.operators[i];
    const int32_t out = op.outputs[0];
    if (!needed[out] || fed[out]) continue;
    plan->operators.push_back(i);
    for (int32_t t : op.inputs) {
      if (t >= 0) needed[t] = true;
    }
  }
  std::reverse(plan->operators.begin(), plan->operators.end());
  std::vector<bool> available = fed;
  std::vector<Lifetime> lifetimes;
  std::vector<int32_t> place(count, -1);
  for (int32_t i : plan->operators) {
    const Operator& op = model_.operators[i];
    for (int32_t t : op.inputs) {
      if (t < 0 || model_.tensors[t].constant) continue;
      if (!available[t]) {
        throw std::invalid_argument("Expected a feed of " + model_.Describe(t) +
                                    ", which operator " + std::to_string(i) + " " + op.name +
                                    " reads, got none");
      }
      if (place[t] >= 0) lifetimes[place[t]].last = i;
    }
    const int32_t out = op.outputs[0];
    available[out] = true;
    if (std::find(fetches.begin(), fetches.end(), out) == fetches.end()) {
      place[out] = static_cast<int32_t>(lifetimes.size());
      lifetimes.push_back({out, model_.tensors[out].bytes(), i, i, 0});
    }
    plan->scratch_bytes = std::max(plan->scratch_bytes, kernels_[i]->scratch_bytes());
    for (int32_t t : op.inputs) {
      if (t >= 0) plan->largest = std::max(plan->largest, model_.tensors[t].bytes());
    }
    plan->largest = std::max(plan->largest, model_.tensors[out].bytes());
  }
  for (int32_t t : fetches) {
    if (!available[t]) {
      throw std::invalid_argument("Expected operators that compute " + model_.Describe(t) +
                                  ", got the range " + std::to_string(first) + " to " +
                                  std::to_string(last));
    }
  }
  plan->arena_bytes = PlanArena(kAlignment, &lifetimes);
  plan->offset.assign(count, SIZE_MAX);
  for (const Lifetime& l : lifetimes) plan->offset[l.tensor] = l.offset;
  return plan;
}

const Engine::Plan& Engine::FindPlan(int32_t first, int32_t last, const std::vector<Feed>& feeds,
                                     const std::vector<Fetch>& fetches) {
  std::vector<int32_t> key = {first, last};
  std::vector<int32_t> fed, fetched;
  for (const Feed& f : feeds) fed.push_back(f.tensor);
  for (const Fetch& f : fetches) fetched.push_back(f.tensor);
  key.insert(key.end(), fed.begin(), fed.end());
  key.push_back(-1);
  key.insert(key.end(), fetched.begin(), fetched.end());
  const std::lock_guard<std::mutex> lock(pool_mutex_);
  std::unique_ptr<Plan>& plan = plans_[key];
  if (plan == nullptr) {
    try {
      plan = MakePlan(first, last, fed, fetched);
    } catch (...) {
      plans_.erase(key);
      throw;
    }
  }
  return *plan;
}

std::vector<int32_t> Engine::Activations() const {
  std::vector<int32_t> result(model_.inputs);
  for (const Operator& op : model_.operators) {
    result.insert(result.end(), op.outputs.begin(), op.outputs.end());
  }
  return result;
}

std::vector<int32_t> Engine::LiveTensors(int32_t op) const {
  if (op < 0 || op > operators()) {
    throw std::invalid_argument("Expected an operator of 0 to " + std::to_string(operators()) +
                                ", got " + std::to_string(op));
  }
  std::vector<bool> read(model_.tensors.size(), false);
  for (int32_t i = op; i < operators(); ++i) {
    for (int32_t t : model_.operators[i].inputs) {
      if (t >= 0) read[t] = true;
    }
  }
  for (int32_t t : model_.outputs) read[t] = true;
  std::vector<int32_t> result;
  for (int32_t t : model_.inputs) {
    if (read[t]) result.push_back(t);
  }
  for (int32_t i = 0; i < op; ++i) {
    for (int32_t t : model_.operators[i].outputs) {
      if (read[t]) result.push_back(t);
    }
  }
  return result;
}

}  // namespace tflm_train
