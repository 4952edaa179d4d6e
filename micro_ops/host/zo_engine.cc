#include "micro_ops/host/zo_engine.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "micro_ops/core/counter_rng.h"
#include "micro_ops/core/zo_loss.h"
#include "micro_ops/core/zo_perturb.h"
#include "micro_ops/host/zo_dense.h"

namespace tflm_train {

struct ZoEngine::Slot {
  ZoTrainable trainable;
  bool bias;  // int32
  uint8_t* data;
  uint32_t size;
  uint32_t sign_block, rounding_block;

  int8_t* weights() const { return reinterpret_cast<int8_t*>(data); }
  int32_t* biases() const { return reinterpret_cast<int32_t*>(data); }
};

namespace {

void Require(bool ok, const std::string& expectation) {
  if (!ok) throw std::invalid_argument("Expected " + expectation);
}

}  // namespace

ZoLossTable::ZoLossTable(ZoLoss loss, int32_t mult, int32_t outputs)
    : loss_(loss), mult_(mult), outputs_(outputs), terms_(256, 0) {
  if (loss != ZoLoss::kCrossEntropy) return;
  for (uint32_t i = 0; i < 256; ++i) terms_[i] = ZoExp2Negative(i * static_cast<uint32_t>(mult));
}

int64_t ZoLossTable::Sum(const int8_t* logits, const ZoBatch& batch) const {
  int64_t total = 0;
  for (int32_t i = 0; i < batch.samples; ++i, logits += outputs_) {
    if (loss_ == ZoLoss::kSquaredError) {
      total += ZoSquaredError(logits, batch.targets + static_cast<size_t>(i) * outputs_, outputs_);
      continue;
    }
    const int32_t highest = *std::max_element(logits, logits + outputs_);
    uint32_t sum = 0;
    for (int32_t c = 0; c < outputs_; ++c) sum += terms_[highest - logits[c]];
    total += ZoLog2(sum) + static_cast<int64_t>(highest - logits[batch.labels[i]]) * mult_;
  }
  return total;
}

ZoEngine::ZoEngine(Engine* engine, const ZoProblem& problem)
    : engine_(engine),
      problem_(problem),
      outputs_(engine->Outputs(problem.logits)),
      table_(problem.loss, problem.mult, outputs_) {
  const Model& model = engine->model();
  Require(!model.tensors[problem.logits].constant,
          "logits that are an activation, got " + model.Describe(problem.logits));
  Require(problem.mu >= 1 && problem.mu <= 63, "mu of 1 to 63, got " + std::to_string(problem.mu));
  Require(!problem.trainable.empty(), "trainable tensors, got none");
  if (problem.loss == ZoLoss::kCrossEntropy) {
    Require(outputs_ <= kZoMaxClasses, "at most 4095 classes, got " + std::to_string(outputs_));
    Require(problem.mult >= 1 && problem.mult <= kZoMaxLossMult,
            "a loss multiplier of 1 to 2^23 - 1, got " + std::to_string(problem.mult));
  }
  uint32_t sign_block = 0, rounding_block = 0;
  for (const ZoTrainable& t : problem.trainable) {
    engine->CheckTensor(t.tensor);
    const Tensor& tensor = model.tensors[t.tensor];
    engine->CheckWritable(t.tensor);
    Require(tensor.type == TensorType::kInt8 || tensor.type == TensorType::kInt32,
            "int8 weights or an int32 bias, got " + model.Describe(t.tensor));
    const bool bias = tensor.type == TensorType::kInt32;
    Require(t.unit >= 1 && t.unit <= (bias ? 1 << 24 : 1),
            "a unit of 1 for weights and of 1 to 2^24 for a bias, got " + std::to_string(t.unit) +
                " for " + model.Describe(t.tensor));
    Require(t.limit >= 1 && (bias ? t.limit <= (1 << 30) : t.limit <= 127 - problem.mu),
            "a limit that leaves room for mu, got " + std::to_string(t.limit) + " for " +
                model.Describe(t.tensor));
    for (const Slot& other : slots_) {
      Require(
          model.tensors[other.trainable.tensor].buffer != tensor.buffer,
          "trainable tensors apart from each other, got " + model.Describe(t.tensor) + " twice");
    }
    const uint32_t size = static_cast<uint32_t>(tensor.elements);
    slots_.push_back(
        {t, bias, engine->MutableConstant(t.tensor), size, sign_block, rounding_block});
    sign_block += RngSignBlocks(size);
    rounding_block += RngRoundingBlocks(size);
    for (Kernel* kernel : engine->ReadersOf(t.tensor)) {
      if (std::find(readers_.begin(), readers_.end(), kernel) == readers_.end()) {
        readers_.push_back(kernel);
      }
    }
  }
  FindDense();
}

ZoEngine::~ZoEngine() = default;

// Whether all that trains belongs to one dense layer and nothing else reads it.
void ZoEngine::FindDense() {
  if (readers_.size() != 1 || engine_->simd_kernels() == nullptr) return;
  int32_t op = 0;
  while (engine_->kernel(op) != readers_[0]) ++op;
  const Operator& o = engine_->model().operators[op];
  if (o.code != Builtin::kFullyConnected || op < problem_.first_op) return;
  ZoDense::Part weights, bias;
  for (const Slot& s : slots_) {
    ZoDense::Part* part = s.trainable.tensor == o.inputs[1] ? &weights : &bias;
    if (part == &bias && (o.inputs.size() < 3 || s.trainable.tensor != o.inputs[2])) return;
    *part = {s.trainable.unit, s.sign_block};
  }
  dense_ = ZoDense::Make(engine_, problem_, op, weights, bias);
}

void ZoEngine::CheckBatch(const ZoBatch& batch) const {
  Require(batch.samples >= 1, "samples, got none");
  if (problem_.loss != ZoLoss::kCrossEntropy) return;
  for (int32_t i = 0; i < batch.samples; ++i) {
    if (batch.labels[i] >= 0 && batch.labels[i] < outputs_) continue;
    throw std::invalid_argument("Expected labels of 0 to " + std::to_string(outputs_ - 1) +
                                ", got " + std::to_string(batch.labels[i]) + " at sample " +
                                std::to_string(i));
  }
}

int64_t ZoEngine::Evaluate(const ZoBatch& batch) {
  logits_.resize(static_cast<size_t>(batch.samples) * outputs_);
  engine_->RunLocked(problem_.first_op, engine_->operators(), batch.feeds,
                     {{problem_.logits, logits_.data()}}, batch.samples);
  return table_.Sum(logits_.data(), batch);
}

// w += delta * unit * z_k for every trainable tensor.
void ZoEngine::Perturb(uint32_t step, int32_t k, int32_t delta) {
  const uint32_t key = RngKey(problem_.seed, step, static_cast<uint32_t>(k));
  for (const Slot& s : slots_) {
    const int32_t d = delta * s.trainable.unit;
    if (s.bias) {
      ZoPerturbInt32(s.biases(), s.size, key, s.sign_block, d);
    } else {
      (engine_->simd_kernels() ? engine_->simd_kernels()->perturb : &ZoPerturbInt8)(
          s.weights(), s.size, key, s.sign_block, d);
    }
  }
}

void ZoEngine::CheckRoom() const {
  for (const Slot& s : slots_) {
    const int64_t limit = s.trainable.limit;
    int64_t largest = 0;
    for (uint32_t j = 0; j < s.size; ++j) {
      const int64_t w = s.bias ? s.biases()[j] : s.weights()[j];
      largest = std::max(largest, w < 0 ? -w : w);
    }
    Require(largest <= limit, "|weights| of at most " + std::to_string(limit) +
                                  " so that a perturbation can be undone, got " +
                                  std::to_string(largest) + " in " +
                                  engine_->model().Describe(s.trainable.tensor));
  }
}

void ZoEngine::CheckDirections(int32_t q) const {
  const int32_t least = problem_.estimator == ZoEstimator::kLeaveOneOut ? 2 : 1;
  Require(q >= least && q <= kZoMaxQ, "q of " + std::to_string(least) + " to " +
                                          std::to_string(kZoMaxQ) + ", got " + std::to_string(q));
}

void ZoEngine::Losses(const ZoBatch& batch, uint32_t step, int32_t q, ZoLosses* losses) {
  CheckDirections(q);
  CheckRoom();
  LossesUnchecked(batch, step, q, losses);
}

void ZoEngine::LossesUnchecked(const ZoBatch& batch, uint32_t step, int32_t q, ZoLosses* losses) {
  const bool two_sided = problem_.estimator == ZoEstimator::kTwoSided;
  losses->plus.resize(q);
  losses->minus.resize(two_sided ? q : 0);
  losses->base = 0;
  if (dense_ != nullptr) {
    dense_->Losses(batch, step, q, table_, losses);
    return;
  }
  if (problem_.estimator == ZoEstimator::kOneSided) losses->base = Evaluate(batch);
  const auto moved = [&](int32_t k, int32_t delta) {
    Perturb(step, k, delta);
    for (Kernel* kernel : readers_) kernel->Repack();
    const int64_t loss = Evaluate(batch);
    Perturb(step, k, -delta);
    return loss;
  };
  for (int32_t k = 0; k < q; ++k) {
    losses->plus[k] = moved(k, problem_.mu);
    if (two_sided) losses->minus[k] = moved(k, -problem_.mu);
  }
  for (Kernel* kernel : readers_) kernel->Repack();
}

void ZoEngine::Update(const int32_t* coefficients, int32_t q, uint32_t step, int32_t beta_q8,
                      const std::vector<ZoTensorState>& states, ZoTrace* trace) {
  trace->saturated = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& s = slots_[i];
    const ZoUpdateParams params = {
        problem_.seed,     step,         coefficients,    q, beta_q8, s.trainable.unit,
        s.trainable.limit, s.sign_block, s.rounding_block};
    const ZoTensorState& state = states[i];
    if (s.bias) {
      trace->saturated += ZoUpdateInt32(params, s.biases(), state.momentum, s.size);
    } else if (state.int16_shadow != nullptr) {
      trace->saturated +=
          ZoUpdateInt16Shadow(params, s.weights(), state.int16_shadow, state.momentum, s.size);
    } else if (state.float_shadow != nullptr) {
      trace->saturated +=
          ZoUpdateFloatShadow(params, s.weights(), state.float_shadow, state.momentum, s.size);
    } else {
      const bool simd = engine_->simd_kernels() != nullptr && s.trainable.unit == 1;
      trace->saturated += (simd ? engine_->simd_kernels()->update : &ZoUpdateInt8)(
          params, s.weights(), state.momentum, s.size);
    }
  }
  for (Kernel* kernel : readers_) kernel->Repack();
}

void ZoEngine::Train(const ZoBatch& data, const int32_t* indices, int64_t count,
                     uint32_t first_step, const ZoSchedule& schedule,
                     const std::vector<ZoTensorState>& states, ZoTrace* trace) {
  const int32_t q = schedule.q;
  const int64_t steps = (count + schedule.batch_size - 1) / schedule.batch_size;
  CheckDirections(q);
  CheckRoom();
  trace->coefficients.resize(static_cast<size_t>(steps) * q);
  trace->differences.resize(static_cast<size_t>(steps) * q);
  trace->losses.resize(static_cast<size_t>(steps));
  const Model& model = engine_->model();
  std::vector<std::vector<int8_t>> gathered(data.feeds.size());
  std::vector<int32_t> labels;
  std::vector<int8_t> targets;
  ZoLosses losses;
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t begin = s * schedule.batch_size;
    const int32_t samples =
        static_cast<int32_t>(std::min<int64_t>(schedule.batch_size, count - begin));
    ZoBatch batch = {{}, nullptr, nullptr, samples};
    for (size_t f = 0; f < data.feeds.size(); ++f) {
      const size_t bytes = model.tensors[data.feeds[f].tensor].bytes();
      gathered[f].resize(bytes * samples);
      for (int32_t i = 0; i < samples; ++i) {
        std::memcpy(gathered[f].data() + bytes * i,
                    data.feeds[f].data + bytes * static_cast<size_t>(indices[begin + i]), bytes);
      }
      batch.feeds.push_back({data.feeds[f].tensor, gathered[f].data()});
    }
    if (problem_.loss == ZoLoss::kCrossEntropy) {
      labels.resize(samples);
      for (int32_t i = 0; i < samples; ++i) labels[i] = data.labels[indices[begin + i]];
      batch.labels = labels.data();
    } else {
      targets.resize(static_cast<size_t>(outputs_) * samples);
      for (int32_t i = 0; i < samples; ++i) {
        std::memcpy(targets.data() + static_cast<size_t>(outputs_) * i,
                    data.targets + static_cast<size_t>(outputs_) * indices[begin + i],
                    static_cast<size_t>(outputs_));
      }
      batch.targets = targets.data();
    }
    const uint32_t step = first_step + static_cast<uint32_t>(s);
    LossesUnchecked(batch, step, q, &losses);
    int32_t* d = trace->differences.data() + s * q;
    int32_t* a = trace->coefficients.data() + s * q;
    ZoDifferences(problem_.estimator, losses.base, losses.plus.data(),
                  losses.minus.empty() ? nullptr : losses.minus.data(), q, d);
    if (schedule.rms) {
      ZoCoefficientsRms(d, q, schedule.rate[s], &trace->mean_square, a);
    } else {
      ZoCoefficientsRaw(d, q, schedule.rate[s], a);
    }
    trace->losses[s] = losses.base;
    if (problem_.estimator != ZoEstimator::kOneSided) {
      for (int64_t loss : losses.plus) trace->losses[s] += loss;
    }
    Update(a, q, step, schedule.beta_q8, states, trace);
  }
}

}  // namespace tflm_train
