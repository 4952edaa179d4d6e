// Backward pass and updates of the host trainer.
#include <algorithm>
#include <cstring>

#include "micro_ops/host/priot_net.h"

namespace tflm_train {
namespace {

constexpr uint32_t kStatisticsEvery = 16;

bool AllZero(const int8_t* values, int32_t size) {
  int32_t any = 0;
  for (int32_t i = 0; i < size; ++i) any |= values[i];
  return any == 0;
}

int64_t CountSaturated(const int8_t* values, int32_t size) {
  int64_t count = 0;
  for (int32_t i = 0; i < size; ++i) count += values[i] == 127 || values[i] <= -127 ? 1 : 0;
  return count;
}

}  // namespace

void PriotNet::Backward(uint32_t rng_step, bool accumulate) {
  const bool sample_statistics = rng_step % kStatisticsEvery == 0;
  for (size_t i = layers_.size(); i-- > first_weights_;) {
    PriotLayer& layer = layers_[i];
    // Behind a pool the ReLU was applied to the pool's output already.
    const bool pooled = i + 1 < layers_.size() && layers_[i + 1].kind == LayerKind::kMaxPool;
    const bool relu_before_pool = layer.kind == LayerKind::kMaxPool && i > 0 && layers_[i - 1].relu;
    if ((layer.relu && !pooled) || relu_before_pool) {
      NitiReluBackward(layer.output.data(), layer.out_size, layer.error.data());
    }
    if (sample_statistics) {
      layer.outputs_seen += layer.out_size;
      layer.outputs_saturated += CountSaturated(layer.output.data(), layer.out_size);
      layer.errors_seen += layer.out_size;
      layer.errors_saturated += CountSaturated(layer.error.data(), layer.out_size);
    }
    if (i > first_weights_) {
      // An error of zeros gives zero errors and steps everywhere below.
      if (AllZero(layer.error.data(), layer.out_size)) return;
      BackwardLayer(i, rng_step);
    }
    if (!layer.has_weights()) continue;
    if (accumulate) {
      AddGradient(&layer, InputOf(i));
    } else {
      UpdateFromSample(&layer, InputOf(i), rng_step);
    }
  }
}

void PriotNet::BackwardLayer(size_t index, uint32_t rng_step) {
  PriotLayer& layer = layers_[index];
  int8_t* error_in = layers_[index - 1].error.data();
  if (layer.kind == LayerKind::kMaxPool) {
    kernels_.max_pool_backward(layer.pool, layer.error.data(), layer.argmax.data(), error_in);
    return;
  }
  const int8_t* weights = settings.masked_backward ? layer.effective() : layer.weights.data();
  Requantize params = {layer.backward_shift, settings.backward, -127, 127, 0};
  if (settings.backward == Rounding::kStochastic) {
    params.key = RngKey(settings.seed, rng_step, NitiStream(layer.number, NitiUse::kBackward));
  }
  const Requantize* fixed = settings.dynamic_backward ? nullptr : &params;
  int32_t* sums = layer.accumulators.data();
  if (layer.kind == LayerKind::kConv) {
    kernels_.conv_backward(layer.conv, &layer.work, layer.error.data(), weights, fixed, sums,
                           error_in);
  } else if (layer.kind == LayerKind::kDense) {
    kernels_.dense_backward(layer.dense, layer.error.data(), weights, fixed, sums, error_in);
  } else {
    NitiDepthwiseBackwardAccumulate(layer.conv, layer.error.data(), weights, sums);
    if (fixed != nullptr) kernels_.requantize(sums, layer.in_size, params, error_in);
  }
  if (fixed == nullptr) {
    params.shift = NitiDynamicShift(sums, layer.in_size, 7);
    kernels_.requantize(sums, layer.in_size, params, error_in);
    if (recording_ && std::any_of(sums, sums + layer.in_size, [](int32_t v) { return v != 0; })) {
      ++layer.histogram[static_cast<int>(NitiUse::kBackward)][params.shift];
    }
  }
}

void PriotNet::AddGradient(PriotLayer* layer, const int8_t* input) {
  const int8_t* error = layer->error.data();
  int32_t* row = layer->row.data();
  auto add = [layer](const int32_t* from, int32_t number) {
    int32_t* to = layer->gradient.data() + static_cast<size_t>(number) * layer->row_size;
    for (int32_t i = 0; i < layer->row_size; ++i) to[i] += from[i];
  };
  if (layer->kind == LayerKind::kDense) {
    for (int32_t o = 0; o < layer->rows; ++o) {
      const int32_t e = error[o];
      if (e == 0) continue;
      int32_t* to = layer->gradient.data() + static_cast<size_t>(o) * layer->row_size;
      for (int32_t i = 0; i < layer->row_size; ++i) to[i] += e * input[i];
    }
  } else if (layer->kind == LayerKind::kDepthwise) {
    if (NitiDepthwiseGradient(layer->conv, input, error, row)) add(row, 0);
  } else {
    kernels_.conv_gradient_begin(layer->conv, &layer->work, error);
    for (int32_t o = 0; o < layer->rows; ++o) {
      if (kernels_.conv_gradient_row(layer->conv, &layer->work, input, error, o, row)) add(row, o);
    }
  }
}

EdgeRow PriotNet::Row(PriotLayer* layer, int32_t row, const UpdateParams& params) {
  const size_t first = static_cast<size_t>(row) * layer->row_size;
  return EdgeRow{layer->weights.data() + first,
                 layer->has_scores ? layer->scores.data() + first : nullptr,
                 layer->scored.empty() ? nullptr : layer->scored.data() + first,
                 layer->has_scores ? layer->masked.data() + first : nullptr,
                 layer->threshold,
                 layer->row_size,
                 static_cast<int32_t>(first),
                 params,
                 &layer->counts};
}

void PriotNet::UpdateFromSample(PriotLayer* layer, const int8_t* input, uint32_t rng_step) {
  const int8_t* error = layer->error.data();
  int32_t* scratch = layer->row.data();
  UpdateParams params = {layer->update_shift, settings.update, 0};
  if (settings.update == Rounding::kStochastic) {
    params.key = RngKey(settings.seed, rng_step, NitiStream(layer->number, NitiUse::kUpdate));
  }
  if (layer->kind == LayerKind::kDense) {
    for (int32_t o = 0; o < layer->rows; ++o) {
      if (error[o] == 0) continue;
      kernels_.update_dense_row(Row(layer, o, params), error[o], input);
    }
  } else if (layer->kind == LayerKind::kDepthwise) {
    if (NitiDepthwiseGradient(layer->conv, input, error, scratch)) {
      kernels_.update_row(Row(layer, 0, params), scratch);
    }
  } else {
    kernels_.conv_gradient_begin(layer->conv, &layer->work, error);
    for (int32_t o = 0; o < layer->rows; ++o) {
      if (kernels_.conv_gradient_row(layer->conv, &layer->work, input, error, o, scratch)) {
        kernels_.update_row(Row(layer, o, params), scratch);
      }
    }
  }
  AfterUpdate(layer);
}

int32_t PriotNet::GradientBits(const PriotLayer& layer) const {
  uint32_t largest = 0;
  for (int32_t i = 0; i < layer.weight_size(); ++i) {
    if (layer.has_scores && !layer.scored.empty() && layer.scored[i] == 0) continue;
    const int32_t value = layer.has_scores ? SaturatingProduct(layer.weights[i], layer.gradient[i])
                                           : layer.gradient[i];
    largest = std::max(largest, Magnitude(value));
  }
  return BitLength(largest);
}

void PriotNet::UpdateFromGradient(PriotLayer* layer, uint32_t rng_step) {
  UpdateParams params = {layer->update_shift, settings.update, 0};
  if (settings.update == Rounding::kStochastic) {
    params.key = RngKey(settings.seed, rng_step, NitiStream(layer->number, NitiUse::kUpdate));
  }
  if (settings.dynamic_update) {
    const int32_t bits = GradientBits(*layer);
    if (bits == 0) return;
    params.shift = std::max(bits - settings.mu, 0);
  }
  for (int32_t o = 0; o < layer->rows; ++o) {
    const int32_t* row = layer->gradient.data() + static_cast<size_t>(o) * layer->row_size;
    kernels_.update_row(Row(layer, o, params), row);
  }
  std::fill(layer->gradient.begin(), layer->gradient.end(), 0);
  AfterUpdate(layer);
}

void PriotNet::AfterUpdate(PriotLayer* layer) {
  if (layer->has_scores && settings.kept_permille > 0) {
    Refresh(layer);
  } else {
    layer->work.packed_valid = false;
  }
}

}  // namespace tflm_train
