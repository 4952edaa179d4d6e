#include "micro_ops/tflm/zo_trainer.h"

#include "micro_ops/core/niti_loss.h"
#include "micro_ops/core/zo_loss.h"
#include "tensorflow/lite/micro/micro_log.h"

namespace tflm_train {
namespace {

constexpr int32_t kBiasLimit = 1 << 30;
constexpr double kLog2E = 1.4426950408889634;
constexpr int32_t kMaxBatch = 128;

size_t Align(size_t bytes) { return (bytes + 15) & ~static_cast<size_t>(15); }

}  // namespace

ZoTrainer::ZoTrainer(const tflite::Model* model, const tflite::MicroOpResolver& resolver,
                     uint8_t* arena, size_t arena_bytes, const ZoTrainerOptions& options)
    : model_(model, resolver, arena, arena_bytes), options_(options) {}

size_t ZoTrainer::MostDirections() const {
  int32_t most = options_.q;
  for (int32_t i = 0; options_.scheduler != nullptr && i < options_.scheduler->level_count; ++i) {
    const int32_t q = options_.scheduler->levels[i];
    if (i == 0 || q > most) most = q;
  }
  return static_cast<size_t>(most);
}

size_t ZoTrainer::MemoryBytes() const {
  size_t bytes = model_.WeightBytes();
  if (bytes == 0 || !GoodOptions()) return 0;
  bytes += Align(4 * MostDirections());
  if (options_.estimator == ZoEstimator::kLeaveOneOut) bytes += Align(8 * MostDirections());
  for (int32_t i = 0; i < model_.list().count; ++i) {
    const size_t size = model_.list().tensors[i].size;
    if (options_.beta_q8 > 0) bytes += Align(4 * size);
    if (options_.int16_shadow) bytes += Align(2 * size);
  }
  return bytes;
}

bool ZoTrainer::GoodOptions() const {
  const ZoTrainerOptions& o = options_;
  const int32_t least = o.estimator == ZoEstimator::kLeaveOneOut ? 2 : 1;
  const int32_t levels = o.scheduler == nullptr ? 1 : o.scheduler->level_count;
  if (o.mu < 1 || o.mu > 63 || o.beta_q8 < 0 || o.beta_q8 > 255 || o.lr_q16 > 1u << 24 ||
      levels < 1 || levels > kQMaxLevels || (!o.rms && o.total_steps > 0)) {
    return false;
  }
  for (int32_t i = 0; i < levels; ++i) {
    const int32_t q = o.scheduler == nullptr ? o.q : o.scheduler->levels[i];
    if (q < least || q > kZoMaxQ) return false;
  }
  for (int32_t i = 0; i < model_.list().count; ++i) {
    if (o.int16_shadow && model_.list().tensors[i].is_bias) return false;
  }
  return true;
}

TrainStatus ZoTrainer::CheckHeadroom() const {
  for (int32_t i = 0; i < config_.tensor_count; ++i) {
    const ZoTensor& t = tensors_[i];
    for (uint32_t j = 0; j < t.size; ++j) {
      const int32_t value = t.bias != nullptr ? t.bias[j] : t.weights[j];
      if (value > t.limit || value < -t.limit) return TrainStatus::kHeadroom;
    }
  }
  return TrainStatus::kOk;
}

TrainStatus ZoTrainer::Begin(uint8_t* memory, size_t bytes) {
  if (model_.list_status() != ListStatus::kOk) return TrainStatus::kNoTrainingEntry;
  if (!GoodOptions()) return TrainStatus::kOptions;
  if (bytes < MemoryBytes()) {
    MicroPrintf("tflm_train: needed %d bytes for weights and training state, given %d",
                static_cast<int>(MemoryBytes()), static_cast<int>(bytes));
    return TrainStatus::kMemory;
  }
  const TrainStatus status = model_.Begin(memory, bytes, options_.stale);
  if (status != TrainStatus::kOk) return status;
  memory += model_.WeightBytes();
  coefficients_ = reinterpret_cast<int32_t*>(memory);
  memory += Align(4 * MostDirections());
  int64_t* losses = nullptr;
  if (options_.estimator == ZoEstimator::kLeaveOneOut) {
    losses = reinterpret_cast<int64_t*>(memory);
    memory += Align(8 * MostDirections());
  }
  const TrainableList& list = model_.list();
  for (int32_t i = 0; i < list.count; ++i) {
    const TrainableTensor& from = list.tensors[i];
    ZoTensor& to = tensors_[i];
    to = {nullptr, nullptr, nullptr, nullptr, from.size, from.unit, 127 - options_.mu};
    if (from.is_bias) {
      to.bias = static_cast<int32_t*>(model_.weights(i));
      to.limit = kBiasLimit;
    } else {
      to.weights = static_cast<int8_t*>(model_.weights(i));
    }
    if (options_.beta_q8 > 0) {
      to.momentum = reinterpret_cast<int32_t*>(memory);
      memory += Align(4 * from.size);
    }
    if (options_.int16_shadow) {
      to.shadow = reinterpret_cast<int16_t*>(memory);
      memory += Align(2 * from.size);
    }
  }
  const int32_t levels = options_.scheduler == nullptr ? 1 : options_.scheduler->level_count;
  for (int32_t i = 0; i < levels; ++i) {
    const int32_t q = options_.scheduler == nullptr ? options_.q : options_.scheduler->levels[i];
    rates_[i] = options_.rates != nullptr ? options_.rates[i]
                                          : ZoRate{q, options_.lr_q16, options_.multiplier};
  }
  config_ = {tensors_,    list.count,         rates_,       levels,           options_.seed,
             options_.mu, options_.estimator, options_.rms, options_.beta_q8, options_.total_steps,
             losses};
  const double scale = static_cast<double>(list.logits_scale) * kLog2E * 65536.0;
  if (scale + 0.5 >= static_cast<double>(kZoMaxLossMult) || list.classes > kZoMaxClasses) {
    return TrainStatus::kUnsupported;
  }
  loss_multiplier_ = scale < 1.0 ? 1 : static_cast<int32_t>(scale + 0.5);
  saved_ = {};
  ZoStart(config_, &saved_.state);
  return CheckHeadroom();
}

const int8_t* ZoTrainer::RunSample(void* context, int32_t i) {
  auto* self = static_cast<ZoTrainer*>(context);
  // Every pass over the batch begins with sample 0 and weights that have just been changed.
  if (i == 0) self->model_.WeightsChanged();
  const int32_t label = LabelOf(context, i);
  if (label < 0 || label >= self->model_.list().classes) return nullptr;
  const int8_t* x = self->samples_->input(self->samples_->context, i);
  return x == nullptr ? nullptr : self->model_.Run(x);
}

int32_t ZoTrainer::LabelOf(void* context, int32_t i) {
  const SampleSource& samples = *static_cast<ZoTrainer*>(context)->samples_;
  return samples.label(samples.context, i);
}

int32_t ZoTrainer::q() const {
  return options_.scheduler == nullptr ? options_.q
                                       : QSchedulerQ(*options_.scheduler, saved_.scheduler);
}

TrainStatus ZoTrainer::Step(const SampleSource& samples, int32_t count, ZoResult* result) {
  if (count < 1 || count > kMaxBatch) return TrainStatus::kOptions;
  const int32_t classes = model_.list().classes;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t label = samples.label(samples.context, i);
    if (label < 0 || label >= classes) return TrainStatus::kOptions;
  }
  samples_ = &samples;
  const ZoBatch batch = {RunSample, this,    count,   classes,
                         nullptr,   LabelOf, nullptr, loss_multiplier_};
  ZoResult made = {0, coefficients_, 0};
  const bool ok = ZoStep(config_, batch, q(), &saved_.state, &made);
  if (result != nullptr) *result = made;
  model_.WeightsChanged();
  return ok ? TrainStatus::kOk : TrainStatus::kInvoke;
}

TrainStatus ZoTrainer::Evaluate(const SampleSource& samples, int32_t count, int64_t* loss,
                                int32_t* correct) {
  int64_t sum = 0;
  int32_t right = 0;
  for (int32_t i = 0; i < count; ++i) {
    const int8_t* x = samples.input(samples.context, i);
    const int8_t* logits = x == nullptr ? nullptr : model_.Run(x);
    if (logits == nullptr) return TrainStatus::kInvoke;
    const int32_t label = samples.label(samples.context, i);
    if (label < 0 || label >= model_.list().classes) return TrainStatus::kOptions;
    sum += ZoCrossEntropy(logits, model_.list().classes, label, loss_multiplier_);
    right += NitiArgMax(logits, model_.list().classes) == label ? 1 : 0;
  }
  if (loss != nullptr) *loss = sum;
  if (correct != nullptr) *correct = right;
  return TrainStatus::kOk;
}

int32_t ZoTrainer::EndEpoch(int64_t metric) {
  if (options_.scheduler == nullptr) return options_.q;
  return QSchedulerUpdate(*options_.scheduler, metric, &saved_.scheduler);
}

int32_t ZoTrainer::Parts(CheckpointPart* parts, int32_t capacity) {
  int32_t count = 0;
  const auto add = [&](void* data, size_t size) {
    if (data == nullptr) return;
    if (count < capacity) parts[count] = {data, static_cast<uint32_t>(size)};
    ++count;
  };
  add(&saved_, sizeof(saved_));
  for (int32_t i = 0; i < config_.tensor_count; ++i) {
    const ZoTensor& t = tensors_[i];
    add(t.weights, t.size);
    add(t.bias, 4 * t.size);
    add(t.momentum, 4 * t.size);
    add(t.shadow, 2 * t.size);
  }
  return count <= capacity ? count : -1;
}

}  // namespace tflm_train
