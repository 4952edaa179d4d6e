#include "micro_ops/host/engine.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <thread>

#include "micro_ops/host/planner.h"

namespace tflm_train {
namespace {

constexpr size_t kMaxArena = size_t{1} << 30;
// Samples are run in blocks whose activations stay in the second-level cache.
constexpr size_t kBlockBytes = 192 << 10;
constexpr size_t kMaxBlock = 96;
constexpr size_t kMaxBlockTensor = size_t{1} << 30;  // kernels count a block's rows in 32 bits

}  // namespace

Engine::Engine(const uint8_t* data, size_t size, const std::string& simd, int32_t threads,
               bool preserve_all)
    : file_(data, data + size),
      model_(ReadModel(file_.data(), file_.size())),
      simd_(FindSimd(simd)),
      threads_(threads),
      preserve_all_(preserve_all) {
  if (threads < 1 || threads > 256) {
    throw std::invalid_argument("Expected 1 to 256 threads, got " + std::to_string(threads));
  }
  for (const Buffer& buffer : model_.buffers) {
    constants_.emplace_back(buffer.size);
    if (buffer.size) {
      std::memcpy(constants_.back().data(), file_.data() + buffer.position, buffer.size);
    }
  }
  CheckGraph();
  const KernelContext context = {model_, constants_, simd_};
  for (size_t i = 0; i < model_.operators.size(); ++i) {
    kernels_.push_back(MakeKernel(context, static_cast<int32_t>(i)));
  }
  std::vector<Lifetime> lifetimes;
  const int32_t last = operators();
  std::map<int32_t, Lifetime> all;
  for (int32_t t : model_.inputs) all[t] = {t, model_.tensors[t].bytes(), 0, 0, 0};
  for (int32_t i = 0; i < last; ++i) {
    for (int32_t t : model_.operators[i].outputs) {
      all[t] = {t, model_.tensors[t].bytes(), i, i, 0};
    }
    for (int32_t t : model_.operators[i].inputs) {
      if (all.count(t)) all[t].last = i;
    }
  }
  for (int32_t t : model_.outputs) {
    if (all.count(t)) all[t].last = last;
  }
  size_t total = 0;
  for (const auto& entry : all) {
    lifetimes.push_back(entry.second);
    total += entry.second.bytes;
  }
  if (total > kMaxArena) {
    throw ModelError("Expected activations of at most 2^30 bytes, got " + std::to_string(total));
  }
  arena_bytes_ = PlanArena(16, &lifetimes);
}

void Engine::Run(int32_t first, int32_t last, const std::vector<Feed>& feeds,
                 const std::vector<Fetch>& fetches, int32_t samples) {
  const std::shared_lock<std::shared_mutex> lock(mutex_);
  RunLocked(first, last, feeds, fetches, samples);
}

void Engine::RunLocked(int32_t first, int32_t last, const std::vector<Feed>& feeds,
                       const std::vector<Fetch>& fetches, int32_t samples) {
  if (first < 0 || last > operators() || first > last) {
    throw std::invalid_argument("Expected a range of operators within 0 to " +
                                std::to_string(operators()) + ", got " + std::to_string(first) +
                                " to " + std::to_string(last));
  }
  for (const Feed& f : feeds) CheckTensor(f.tensor);
  for (const Fetch& f : fetches) CheckTensor(f.tensor);
  const Plan& plan = FindPlan(first, last, feeds, fetches);
  const int32_t threads = std::min(threads_, samples);
  if (threads <= 1) {
    RunSamples(plan, feeds, fetches, 0, samples);
  } else {
    RunThreads(plan, feeds, fetches, samples, threads);
  }
  if (preserve_all_ && samples > 0) Preserve(first, last, feeds, samples - 1);
}

void Engine::RunThreads(const Plan& plan, const std::vector<Feed>& feeds,
                        const std::vector<Fetch>& fetches, int32_t samples, int32_t threads) {
  std::vector<std::thread> pool;
  std::vector<std::exception_ptr> errors(static_cast<size_t>(threads));
  for (int32_t i = 0; i < threads; ++i) {
    const int32_t begin = static_cast<int32_t>(int64_t{samples} * i / threads);
    const int32_t end = static_cast<int32_t>(int64_t{samples} * (i + 1) / threads);
    pool.emplace_back([&, i, begin, end] {
      try {
        RunSamples(plan, feeds, fetches, begin, end);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& t : pool) t.join();
  for (const std::exception_ptr& e : errors) {
    if (e) std::rethrow_exception(e);
  }
}

void Engine::RunSamples(const Plan& plan, const std::vector<Feed>& feeds,
                        const std::vector<Fetch>& fetches, int32_t begin, int32_t end) {
  std::unique_ptr<Workspace> w = TakeWorkspace();
  const size_t fitting =
      std::min(kBlockBytes / std::max<size_t>(plan.arena_bytes, 1), kMaxBlockTensor / plan.largest);
  const int32_t block = static_cast<int32_t>(
      std::max<size_t>(1, std::min({fitting, kMaxBlock, static_cast<size_t>(end - begin)})));
  if (w->arena.size() < plan.arena_bytes * block) {
    w->arena = AlignedArray<uint8_t>(plan.arena_bytes * block);
  }
  if (w->scratch.size() < plan.scratch_bytes) {
    w->scratch = AlignedArray<uint8_t>(plan.scratch_bytes);
  }
  w->data.assign(model_.tensors.size(), nullptr);
  for (size_t t = 0; t < model_.tensors.size(); ++t) {
    if (model_.tensors[t].constant) {
      w->data[t] = reinterpret_cast<int8_t*>(constants_[model_.tensors[t].buffer].data());
    } else if (plan.offset[t] != SIZE_MAX) {
      w->data[t] = reinterpret_cast<int8_t*>(w->arena.data()) + plan.offset[t] * block;
    }
  }
  for (int32_t sample = begin; sample < end; sample += block) {
    const int32_t count = std::min(block, end - sample);
    for (const Fetch& f : fetches) {
      w->data[f.tensor] = f.data + model_.tensors[f.tensor].bytes() * sample;
    }
    for (const Feed& f : feeds) {
      const size_t bytes = model_.tensors[f.tensor].bytes();
      const int8_t* data = f.data + bytes * sample;
      for (const Fetch& fetch : fetches) {
        if (fetch.tensor == f.tensor) {
          std::memcpy(fetch.data + bytes * sample, data, bytes * static_cast<size_t>(count));
        }
      }
      w->data[f.tensor] = const_cast<int8_t*>(data);  // kernels only read their inputs
    }
    const Frame frame = {w->data.data(), w->scratch.data(), count};
    for (int32_t i : plan.operators) kernels_[i]->Run(frame);
  }
  ReturnWorkspace(std::move(w));
}

// Runs one sample once more and keeps every activation.
void Engine::Preserve(int32_t first, int32_t last, const std::vector<Feed>& feeds, int32_t sample) {
  std::map<int32_t, std::vector<int8_t>> kept;
  std::vector<Feed> one;
  std::vector<Fetch> all;
  for (const Feed& f : feeds) {
    const size_t bytes = model_.tensors[f.tensor].bytes();
    const int8_t* data = f.data + bytes * static_cast<size_t>(sample);
    kept[f.tensor].assign(data, data + bytes);
    one.push_back({f.tensor, data});
  }
  for (int32_t i = first; i < last; ++i) {
    const int32_t t = model_.operators[i].outputs[0];
    if (kept.count(t)) continue;
    kept[t].resize(model_.tensors[t].bytes());
    all.push_back({t, kept[t].data()});
  }
  RunSamples(FindPlan(first, last, one, all), one, all, 0, 1);
  const std::lock_guard<std::mutex> lock(pool_mutex_);
  preserved_ = std::move(kept);
}

std::vector<int8_t> Engine::Preserved(int32_t tensor) {
  const std::lock_guard<std::mutex> lock(pool_mutex_);
  const auto found = preserved_.find(tensor);
  return found == preserved_.end() ? std::vector<int8_t>() : found->second;
}

std::unique_ptr<Engine::Workspace> Engine::TakeWorkspace() {
  const std::lock_guard<std::mutex> lock(pool_mutex_);
  if (workspaces_.empty()) return std::make_unique<Workspace>();
  std::unique_ptr<Workspace> workspace = std::move(workspaces_.back());
  workspaces_.pop_back();
  return workspace;
}

void Engine::ReturnWorkspace(std::unique_ptr<Workspace> workspace) {
  const std::lock_guard<std::mutex> lock(pool_mutex_);
  workspaces_.push_back(std::move(workspace));
}

void Engine::CheckTensor(int32_t tensor) const {
  if (tensor < 0 || tensor >= static_cast<int64_t>(model_.tensors.size())) {
    throw std::invalid_argument("Expected a tensor of 0 to " +
                                std::to_string(model_.tensors.size() - 1) + ", got " +
                                std::to_string(tensor));
  }
}

void Engine::CheckConstant(int32_t tensor) const {
  CheckTensor(tensor);
  if (!model_.tensors[tensor].constant) {
    throw std::invalid_argument("Expected a constant, got an activation: " +
                                model_.Describe(tensor));
  }
}

void Engine::CheckWritable(int32_t tensor) const {
  CheckConstant(tensor);
  for (const Operator& op : model_.operators) {
    const bool shaped = op.code == Builtin::kMean || op.code == Builtin::kPad ||
                        op.code == Builtin::kPadV2 || op.code == Builtin::kReshape ||
                        op.code == Builtin::kSqueeze || op.code == Builtin::kExpandDims;
    if (shaped && op.inputs.size() > 1 && op.inputs[1] >= 0 &&
        model_.tensors[op.inputs[1]].buffer == model_.tensors[tensor].buffer) {
      throw std::invalid_argument("Expected weights or biases, got " + model_.Describe(tensor) +
                                  ", which shapes " + op.name + ": load another model instead");
    }
  }
}

const uint8_t* Engine::Constant(int32_t tensor) const {
  CheckConstant(tensor);
  return constants_[model_.tensors[tensor].buffer].data();
}

uint8_t* Engine::MutableConstant(int32_t tensor) {
  CheckConstant(tensor);
  return constants_[model_.tensors[tensor].buffer].data();
}

std::vector<Kernel*> Engine::ReadersOf(int32_t tensor) const {
  std::vector<Kernel*> result;
  const int32_t buffer = model_.tensors[tensor].buffer;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    for (int32_t t : model_.operators[i].inputs) {
      if (t >= 0 && model_.tensors[t].constant && model_.tensors[t].buffer == buffer) {
        result.push_back(kernels_[i].get());
        break;
      }
    }
  }
  return result;
}

void Engine::WriteConstant(int32_t tensor, const void* data) {
  CheckWritable(tensor);
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  std::memcpy(MutableConstant(tensor), data, model_.tensors[tensor].bytes());
  for (Kernel* kernel : ReadersOf(tensor)) kernel->Repack();
}

std::vector<uint8_t> Engine::Serialize() const {
  std::vector<uint8_t> result(file_);
  for (size_t i = 0; i < constants_.size(); ++i) {
    if (constants_[i].size()) {
      std::memcpy(result.data() + model_.buffers[i].position, constants_[i].data(),
                  constants_[i].size());
    }
  }
  return result;
}

}  // namespace tflm_train
