#include "micro_ops/host/priot_net.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace tflm_train {
namespace {

constexpr int32_t kMaxVectorChannels = 2048;

int32_t BitsOf(const int32_t* values, int32_t size) {
  uint32_t largest = 0;
  for (int32_t i = 0; i < size; ++i) largest = std::max(largest, Magnitude(values[i]));
  return BitLength(largest);
}

void Allocate(PriotLayer* layer) {
  const int32_t weights = layer->weight_size();
  const int32_t largest = std::max({layer->in_size, layer->out_size, layer->row_size});
  layer->weights.assign(weights + kSlack, 0);
  layer->output.assign(layer->out_size + kSlack, 0);
  layer->error.assign(layer->out_size + kSlack, 0);
  layer->accumulators.assign(largest + kSlack, 0);
  layer->row.assign(layer->row_size + kSlack, 0);
  layer->gradient.assign(layer->has_weights() ? weights + kSlack : 0, 0);
  if (layer->kind == LayerKind::kMaxPool) layer->argmax.assign(layer->out_size + kSlack, 0);
}

const PriotKernels& Choose(bool portable, const std::vector<PriotLayer>& layers) {
  const PriotKernels* fast = Avx2PriotKernels();
  for (const PriotLayer& layer : layers) {
    if (layer.kind == LayerKind::kConv && layer.conv.out_channels > kMaxVectorChannels) {
      portable = true;
    }
  }
  return portable || fast == nullptr ? PortablePriotKernels() : *fast;
}

}  // namespace

PriotNet::PriotNet(std::vector<PriotLayer> layers, bool portable)
    : layers_(std::move(layers)), kernels_(Choose(portable, layers_)) {
  if (layers_.empty()) throw std::invalid_argument("Expected at least one layer, got none");
  uint32_t number = 0;
  bool found = false;
  for (size_t i = 0; i < layers_.size(); ++i) {
    PriotLayer& layer = layers_[i];
    if (i > 0 && layer.in_size != layers_[i - 1].out_size) {
      throw std::invalid_argument("Expected layer " + std::to_string(i) + " to take " +
                                  std::to_string(layers_[i - 1].out_size) + " values, got " +
                                  std::to_string(layer.in_size));
    }
    if (layer.has_weights()) {
      layer.number = number++;
      if (!found) first_weights_ = i;
      found = true;
    }
    Allocate(&layer);
  }
  if (layers_.back().kind == LayerKind::kMaxPool || layers_.back().relu) {
    throw std::invalid_argument("Expected a last layer of weights without ReLU, got another kind");
  }
  if (classes() < 2 || classes() > kMaxClasses) {
    throw std::invalid_argument("Expected 2 to 4095 classes, got " + std::to_string(classes()));
  }
  input_.assign(input_size() + kSlack, 0);
  loss_scratch_.assign(classes(), 0);
  ResetStatistics();
}

void PriotNet::ResetStatistics() {
  for (PriotLayer& layer : layers_) {
    layer.counts = UpdateCounts();
    layer.outputs_seen = layer.outputs_saturated = 0;
    layer.errors_seen = layer.errors_saturated = 0;
    for (auto& row : layer.histogram) row.fill(0);
  }
}

void PriotNet::Refresh(PriotLayer* layer) {
  layer->work.packed_valid = false;
  if (!layer->has_scores) return;
  const int32_t size = layer->weight_size();
  layer->masked.assign(size + kSlack, 0);
  if (settings.kept_permille > 0) {
    std::array<int32_t, 256> histogram{};
    for (int32_t i = 0; i < size; ++i) ++histogram[layer->scores[i] + 128];
    const int64_t keep = (static_cast<int64_t>(size) * settings.kept_permille + 999) / 1000;
    int64_t kept = 0;
    int32_t bin = 255;
    while (bin >= 0 && (kept += histogram[bin]) < keep) --bin;
    layer->threshold = std::max(bin, 0) - 128;
  }
  for (int32_t i = 0; i < size; ++i) {
    const bool pruned =
        layer->scores[i] < layer->threshold && (layer->scored.empty() || layer->scored[i] != 0);
    layer->masked[i] = pruned ? 0 : layer->weights[i];
  }
}

void PriotNet::Forward(const int8_t* x, uint32_t rng_step) {
  std::memcpy(input_.data(), x, input_size());
  int8_t smallest = 0;
  for (int32_t i = 0; i < input_size(); ++i) smallest = std::min(smallest, x[i]);
  bool non_negative = smallest == 0;
  int32_t exponent = settings.input_exponent;
  for (size_t i = 0; i < layers_.size(); ++i) {
    PriotLayer& layer = layers_[i];
    const int8_t* input = InputOf(i);
    if (layer.kind == LayerKind::kMaxPool) {
      kernels_.max_pool_forward(layer.pool, input, layer.output.data(), layer.argmax.data());
      continue;
    }
    Requantize params = {layer.forward_shift, settings.forward, layer.relu ? 0 : -128, 127, 0};
    if (settings.forward == Rounding::kStochastic) {
      params.key = RngKey(settings.seed, rng_step, NitiStream(layer.number, NitiUse::kForward));
    }
    const Requantize* fixed = settings.dynamic_forward ? nullptr : &params;
    int32_t* sums = layer.accumulators.data();
    if (layer.kind == LayerKind::kConv) {
      kernels_.conv_forward(layer.conv, &layer.work, input, non_negative, layer.effective(),
                            layer.bias_or_null(), fixed, sums, layer.output.data());
    } else if (layer.kind == LayerKind::kDense) {
      kernels_.dense_forward(layer.dense, input, non_negative, layer.effective(),
                             layer.bias_or_null(), fixed, sums, layer.output.data());
    } else {
      NitiDepthwiseAccumulate(layer.conv, input, layer.effective(), layer.bias_or_null(), sums);
      if (fixed != nullptr) {
        kernels_.requantize(sums, layer.out_size, params, layer.output.data());
      }
    }
    if (fixed == nullptr) {
      const int32_t shift = std::max(BitsOf(sums, layer.out_size) - 7, 0);
      params.shift = shift;
      kernels_.requantize(sums, layer.out_size, params, layer.output.data());
      if (recording_) ++layer.histogram[static_cast<int>(NitiUse::kForward)][shift];
    }
    exponent += layer.weight_exponent + params.shift;
    non_negative = layer.relu;
  }
  logits_exponent_ = exponent;
}

bool PriotNet::OutputError(int32_t label) {
  PriotLayer& last = layers_.back();
  return NitiCrossEntropyError(last.output.data(), classes(), logits_exponent_, label,
                               loss_scratch_.data(), last.error.data());
}

void PriotNet::Predict(const int8_t* x, int64_t samples, int8_t* logits) {
  for (int64_t n = 0; n < samples; ++n) {
    Forward(x + n * input_size(), static_cast<uint32_t>(n));
    std::memcpy(logits + n * classes(), layers_.back().output.data(), classes());
  }
}

void PriotNet::Record(EpochResult* result, int32_t label) const {
  const int8_t* logits = layers_.back().output.data();
  const int32_t guess = NitiArgMax(logits, classes());
  const double scale = std::ldexp(1.0, logits_exponent_);
  double sum = 0;
  for (int32_t i = 0; i < classes(); ++i) sum += std::exp((logits[i] - logits[guess]) * scale);
  result->loss += std::log(sum) - (logits[label] - logits[guess]) * scale;
  result->correct += guess == label ? 1 : 0;
  ++result->predicted[guess];
  ++result->samples;
}

EpochResult PriotNet::Evaluate(const int8_t* x, const int32_t* y, int64_t samples, bool averaged) {
  EpochResult result;
  result.predicted.assign(classes(), 0);
  std::vector<std::vector<int8_t>> kept;
  if (averaged) {
    for (PriotLayer& layer : layers_) {
      kept.push_back(layer.masked);
      if (layer.average.empty()) continue;
      for (int32_t i = 0; i < layer.weight_size(); ++i) {
        const bool pruned = ((layer.average[i] + 128) >> 8) < layer.threshold &&
                            (layer.scored.empty() || layer.scored[i] != 0);
        layer.masked[i] = pruned ? 0 : layer.weights[i];
      }
      layer.work.packed_valid = false;
    }
  }
  for (int64_t n = 0; n < samples; ++n) {
    Forward(x + n * input_size(), static_cast<uint32_t>(n));
    Record(&result, y[n]);
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    layers_[i].masked.swap(kept[i]);
    layers_[i].work.packed_valid = false;
  }
  return result;
}

EpochResult PriotNet::Train(const int8_t* x, const int32_t* y, const int32_t* order,
                            int64_t samples, int32_t batch) {
  EpochResult result;
  result.predicted.assign(classes(), 0);
  const bool accumulate = batch > 1 || settings.dynamic_update;
  for (int64_t begin = 0; begin < samples; begin += batch) {
    const int64_t end = std::min<int64_t>(begin + batch, samples);
    const uint32_t first_step = step;
    bool any = false;
    for (int64_t n = begin; n < end; ++n, ++step) {
      const int64_t sample = order == nullptr ? n : order[n];
      Forward(x + sample * input_size(), step);
      Record(&result, y[sample]);
      if (OutputError(y[sample])) {
        any = true;
        Backward(step, accumulate);
      } else {
        ++result.zero_error;
      }
    }
    if (accumulate && any) {
      for (PriotLayer& layer : layers_) {
        if (layer.has_weights()) UpdateFromGradient(&layer, first_step);
      }
    }
    if (settings.average_every > 0 &&
        step / settings.average_every != first_step / settings.average_every) {
      AverageScores();
    }
  }
  return result;
}

EpochResult PriotNet::Calibrate(const int8_t* x, const int32_t* y, int64_t samples) {
  EpochResult result;
  result.predicted.assign(classes(), 0);
  recording_ = true;
  for (int64_t n = 0; n < samples; ++n) {
    Forward(x + n * input_size(), static_cast<uint32_t>(n));
    Record(&result, y[n]);
    if (!OutputError(y[n])) {
      ++result.zero_error;
      continue;
    }
    Backward(static_cast<uint32_t>(n), true);
    for (PriotLayer& layer : layers_) {
      if (!layer.has_weights()) continue;
      const int32_t bits = GradientBits(layer);
      if (bits > 0) ++layer.histogram[static_cast<int>(NitiUse::kUpdate)][bits];
      std::fill(layer.gradient.begin(), layer.gradient.end(), 0);
    }
  }
  recording_ = false;
  return result;
}

void PriotNet::AverageScores() {
  const int32_t shift = settings.average_shift;
  const int32_t half = shift > 0 ? 1 << (shift - 1) : 0;
  for (PriotLayer& layer : layers_) {
    if (!layer.has_scores || layer.average.empty()) continue;
    int16_t* average = layer.average.data();
    const int8_t* scores = layer.scores.data();
    for (int32_t i = 0; i < layer.weight_size(); ++i) {
      const int32_t gap = scores[i] * 256 - average[i];
      average[i] = static_cast<int16_t>(average[i] + ((gap + half) >> shift));
    }
  }
}

}  // namespace tflm_train
