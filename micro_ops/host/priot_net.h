// Host trainer of the integer-only methods: a chain of layers that trains sample by sample without
// returning to Python, with the bits of micro_ops/core (docs/priot_arithmetic.md).
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_NET_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_NET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "micro_ops/core/niti_loss.h"
#include "micro_ops/host/priot_kernels.h"

namespace tflm_train {

enum class LayerKind { kConv, kDepthwise, kDense, kMaxPool };

constexpr int kShiftKinds = 3;  // Indexed by NitiUse.
using ShiftHistogram = std::array<std::array<int64_t, 33>, kShiftKinds>;

struct PriotLayer {
  // Description.
  LayerKind kind = LayerKind::kDense;
  ConvShape conv{};
  DenseShape dense{};
  PoolShape pool{};
  bool relu = false;
  int32_t in_size = 0, out_size = 0;
  int32_t rows = 0, row_size = 0;  // Of the weights; 0 for a pool.
  uint32_t number = 0;             // Among the layers with weights.

  // Parameters. Scores are kept per edge, whatever the file stores.
  std::vector<int8_t> weights, scores, masked;
  std::vector<uint8_t> scored;  // Empty: every edge has a score.
  std::vector<int16_t> average;
  std::vector<int32_t> bias;  // Empty: none.
  bool has_scores = false;
  int32_t threshold = -64;
  int32_t weight_exponent = 0;
  int32_t forward_shift = 0, backward_shift = 0, update_shift = 0;

  // Work of one sample.
  std::vector<int8_t> output, error;
  std::vector<uint8_t> argmax;
  std::vector<int32_t> accumulators, gradient, row;
  ConvWork work;

  // Statistics since the last reset.
  UpdateCounts counts;
  int64_t outputs_seen = 0, outputs_saturated = 0;
  int64_t errors_seen = 0, errors_saturated = 0;
  ShiftHistogram histogram{};

  int32_t weight_size() const { return rows * row_size; }
  bool has_weights() const { return rows > 0; }
  const int32_t* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }
  const int8_t* effective() const { return has_scores ? masked.data() : weights.data(); }
};

struct PriotSettings {
  Rounding forward = Rounding::kTflm;
  Rounding backward = Rounding::kTflm;
  Rounding update = Rounding::kTflm;
  bool masked_backward = true;
  bool dynamic_forward = false;
  bool dynamic_backward = false;
  bool dynamic_update = false;
  int32_t mu = 2;  // Dynamic updates only; static ones have it in update_shift.
  int32_t input_exponent = -7;
  int32_t kept_permille = 0;  // Edge-popup: share of edges kept per layer; 0: fixed threshold.
  int32_t average_every = 0;  // Samples between two steps of the score average; 0: none.
  int32_t average_shift = 5;
  uint32_t seed = 0;
};

struct EpochResult {
  int64_t samples = 0, correct = 0, zero_error = 0;
  double loss = 0;
  std::vector<int64_t> predicted;
};

class PriotNet {
 public:
  explicit PriotNet(std::vector<PriotLayer> layers, bool portable);

  PriotSettings settings;
  uint32_t step = 0;  // Samples trained so far; the RNG's step.

  std::vector<PriotLayer>& layers() { return layers_; }
  const char* kernels() const { return kernels_.name; }
  int32_t input_size() const { return layers_.front().in_size; }
  int32_t classes() const { return layers_.back().out_size; }

  // After weights, scores or a threshold were set.
  void Refresh(PriotLayer* layer);
  void Predict(const int8_t* x, int64_t samples, int8_t* logits);
  EpochResult Evaluate(const int8_t* x, const int32_t* y, int64_t samples, bool averaged);
  EpochResult Train(const int8_t* x, const int32_t* y, const int32_t* order, int64_t samples,
                    int32_t batch);
  // Forward and backward passes without updates; fills the shift histograms.
  EpochResult Calibrate(const int8_t* x, const int32_t* y, int64_t samples);
  int32_t LogitsExponent() const { return logits_exponent_; }
  void ResetStatistics();

 private:
  void Forward(const int8_t* x, uint32_t rng_step);
  bool OutputError(int32_t label);
  void Backward(uint32_t rng_step, bool accumulate);
  void BackwardLayer(size_t index, uint32_t rng_step);
  void AddGradient(PriotLayer* layer, const int8_t* input);
  void UpdateFromSample(PriotLayer* layer, const int8_t* input, uint32_t rng_step);
  void UpdateFromGradient(PriotLayer* layer, uint32_t rng_step);
  int32_t GradientBits(const PriotLayer& layer) const;
  EdgeRow Row(PriotLayer* layer, int32_t row, const UpdateParams& params);
  void AfterUpdate(PriotLayer* layer);
  void AverageScores();
  void Record(EpochResult* result, int32_t label) const;
  const int8_t* InputOf(size_t index) const {
    return index == 0 ? input_.data() : layers_[index - 1].output.data();
  }

  std::vector<PriotLayer> layers_;
  const PriotKernels& kernels_;
  std::vector<int8_t> input_;
  std::vector<int32_t> loss_scratch_;
  size_t first_weights_ = 0;
  bool input_non_negative_ = false;
  bool recording_ = false;
  int32_t logits_exponent_ = 0;
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_NET_H_
