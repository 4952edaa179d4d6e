#include "micro_ops/trainer/zo_step.h"

#include "micro_ops/core/counter_rng.h"
#include "micro_ops/core/zo_loss.h"
#include "micro_ops/core/zo_perturb.h"
#include "micro_ops/core/zo_update.h"

namespace tflm_train {
namespace {

void Perturb(const ZoConfig& config, uint32_t step, int32_t direction, int32_t mu) {
  const uint32_t key = RngKey(config.seed, step, static_cast<uint32_t>(direction));
  uint32_t block = 0;
  for (int32_t i = 0; i < config.tensor_count; ++i) {
    const ZoTensor& t = config.tensors[i];
    if (t.bias != nullptr) {
      ZoPerturbInt32(t.bias, t.size, key, block, mu * t.unit);
    } else {
      ZoPerturbInt8(t.weights, t.size, key, block, mu * t.unit);
    }
    block += RngSignBlocks(t.size);
  }
}

// The loss at w + mu z; the weights are w again afterwards.
bool DirectionLoss(const ZoConfig& config, const ZoBatch& batch, uint32_t step, int32_t direction,
                   int32_t mu, int64_t* loss) {
  Perturb(config, step, direction, mu);
  const bool ok = ZoLoss(batch, loss);
  Perturb(config, step, direction, -mu);
  return ok;
}

const ZoRate* FindRate(const ZoConfig& config, int32_t q) {
  for (int32_t i = 0; i < config.rate_count; ++i) {
    if (config.rates[i].q == q) return &config.rates[i];
  }
  return nullptr;
}

uint32_t Update(const ZoConfig& config, uint32_t step, const int32_t* a, int32_t q) {
  ZoUpdateParams params = {config.seed, step, a, q, config.beta_q8, 1, 0, 0, 0};
  uint32_t saturated = 0;
  for (int32_t i = 0; i < config.tensor_count; ++i) {
    const ZoTensor& t = config.tensors[i];
    params.unit = t.unit;
    params.limit = t.limit;
    if (t.bias != nullptr) {
      saturated += ZoUpdateInt32(params, t.bias, t.momentum, t.size);
    } else if (t.shadow != nullptr) {
      saturated += ZoUpdateInt16Shadow(params, t.weights, t.shadow, t.momentum, t.size);
    } else {
      saturated += ZoUpdateInt8(params, t.weights, t.momentum, t.size);
    }
    params.first_sign_block += RngSignBlocks(t.size);
    params.first_rounding_block += RngRoundingBlocks(t.size);
  }
  return saturated;
}

}  // namespace

void ZoStart(const ZoConfig& config, ZoState* state) {
  state->mean_square = 0;
  state->step = 0;
  for (int32_t i = 0; i < config.tensor_count; ++i) {
    const ZoTensor& t = config.tensors[i];
    for (uint32_t j = 0; j < t.size; ++j) {
      if (t.momentum != nullptr) t.momentum[j] = 0;
      if (t.shadow != nullptr) t.shadow[j] = static_cast<int16_t>(t.weights[j] * 256);
    }
  }
}

bool ZoLoss(const ZoBatch& batch, int64_t* loss) {
  *loss = 0;
  for (int32_t i = 0; i < batch.count; ++i) {
    const int8_t* logits = batch.run(batch.context, i);
    if (logits == nullptr) return false;
    if (batch.labels == nullptr && batch.label == nullptr) {
      *loss += ZoSquaredError(logits, batch.targets + i * batch.classes, batch.classes);
      continue;
    }
    const int32_t label = batch.labels != nullptr ? batch.labels[i] : batch.label(batch.context, i);
    *loss += ZoCrossEntropy(logits, batch.classes, label, batch.loss_multiplier);
  }
  return true;
}

bool ZoStep(const ZoConfig& config, const ZoBatch& batch, int32_t q, ZoState* state,
            ZoResult* result) {
  const ZoRate* rate = FindRate(config, q);
  if (rate == nullptr || q < 1 || q > kZoMaxQ) return false;
  const bool two_sided = config.estimator == ZoEstimator::kTwoSided;
  const bool with_base = config.estimator == ZoEstimator::kOneSided;
  const bool all_at_once = config.estimator == ZoEstimator::kLeaveOneOut;
  if (all_at_once && config.losses == nullptr) return false;
  int64_t base = 0, plus = 0, minus = 0;
  int32_t* a = result->coefficients;
  if (with_base && !ZoLoss(batch, &base)) return false;
  result->base = base;
  for (int32_t k = 0; k < q; ++k) {
    if (!DirectionLoss(config, batch, state->step, k, config.mu, &plus)) return false;
    if (!with_base) result->base += plus;
    if (all_at_once) {
      config.losses[k] = plus;
      continue;
    }
    if (two_sided && !DirectionLoss(config, batch, state->step, k, -config.mu, &minus)) {
      return false;
    }
    ZoDifferences(config.estimator, base, &plus, &minus, 1, &a[k]);
  }
  if (all_at_once) ZoDifferences(config.estimator, 0, config.losses, nullptr, q, a);
  if (config.rms) {
    uint32_t lr_q16 = rate->lr_q16;
    if (config.total_steps > 0) lr_q16 = ZoCosineDecay(lr_q16, state->step, config.total_steps);
    ZoCoefficientsRms(a, q, lr_q16, &state->mean_square, a);
  } else {
    ZoCoefficientsRaw(a, q, rate->multiplier, a);
  }
  result->saturated = Update(config, state->step, a, q);
  ++state->step;
  return true;
}

}  // namespace tflm_train
