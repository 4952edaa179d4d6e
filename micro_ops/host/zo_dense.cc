#include "micro_ops/host/zo_dense.h"

#include <algorithm>
#include <cstring>

#include "micro_ops/core/counter_rng.h"
#include "micro_ops/core/fixed_point.h"

namespace tflm_train {
namespace {

bool OnlyMoves(Builtin code) {
  return code == Builtin::kReshape || code == Builtin::kSqueeze || code == Builtin::kExpandDims;
}

}  // namespace

std::unique_ptr<ZoDense> ZoDense::Make(Engine* engine, const ZoProblem& problem, int32_t op,
                                       Part weights, Part bias) {
  const Model& model = engine->model();
  const int32_t output = model.operators[op].outputs[0];
  // From the logits back to the layer's output and to nothing else that is made before it.
  std::vector<bool> needed(model.tensors.size(), false);
  needed[problem.logits] = true;
  bool direct = true;
  for (int32_t i = engine->operators() - 1; i > op; --i) {
    const Operator& o = model.operators[i];
    if (!needed[o.outputs[0]]) continue;
    needed[o.outputs[0]] = false;
    if (!OnlyMoves(o.code)) direct = false;
    for (int32_t t : o.inputs) {
      if (t >= 0 && !model.tensors[t].constant) needed[t] = true;
    }
  }
  for (size_t t = 0; t < needed.size(); ++t) {
    if (needed[t] != (static_cast<int32_t>(t) == output)) return nullptr;
  }
  std::unique_ptr<ZoDense> dense(new ZoDense(engine, problem, op, weights, bias));
  if (dense->layer_.packed == nullptr) return nullptr;
  dense->direct_ = direct;
  return dense;
}

ZoDense::ZoDense(Engine* engine, const ZoProblem& problem, int32_t op, Part weights, Part bias)
    : engine_(engine), problem_(problem), op_(op), weights_(weights), bias_(bias) {
  if (!engine->kernel(op)->Dense(&layer_) || layer_.packed == nullptr) {
    layer_.packed = nullptr;
    return;
  }
  input_ = engine->model().operators[op].inputs[0];
  output_ = engine->model().operators[op].outputs[0];
  depth_ = layer_.params->input_depth;
  depth_padded_ = RoundUp(depth_, 32);
  columns_ = layer_.params->output_depth;
  pitch_ = RoundUp(columns_, kPanel);
  signs_ = AlignedArray<int8_t>(static_cast<size_t>(columns_) * depth_);
}

// Runs what comes before the layer and brings its inputs into the forms the products need.
void ZoDense::LoadInputs(const ZoBatch& batch) {
  const SimdKernels* simd = engine_->simd_kernels();
  vectors_ = batch.samples * layer_.rows;
  const size_t count = static_cast<size_t>(vectors_);
  const int8_t* x = nullptr;
  for (const Feed& feed : batch.feeds) {
    if (feed.tensor == input_) x = feed.data;
  }
  if (x == nullptr) {
    inputs_.resize(count * depth_);
    engine_->RunLocked(problem_.first_op, op_, batch.feeds, {{input_, inputs_.data()}},
                       batch.samples);
    x = inputs_.data();
  }
  const size_t row_bytes = static_cast<size_t>(layer_.packed->depth_padded) * simd->input_bytes;
  converted_.resize(count * row_bytes + kAlignment);
  for (size_t v = 0; v < count; ++v) {
    simd->convert(x + v * depth_, depth_, converted_.data() + v * row_bytes);
  }
  base_.resize(count * pitch_);
  delta_.resize(count * pitch_);
  moved_.resize(count * pitch_);
  outputs_.resize(count * columns_);
  simd->gemm_sums(*layer_.packed, converted_.data(), vectors_, pitch_, base_.data());
  if (weights_.unit == 0) return;
  if (unsigned_.size() < (count + 1) * depth_padded_) {
    unsigned_ = AlignedArray<uint8_t>((count + 1) * depth_padded_);
  }
  // Locals, since bytes may alias any member.
  const int32_t depth = depth_;
  for (size_t v = 0; v < count; ++v) {
    uint8_t* row = unsigned_.data() + v * depth_padded_;
    const int8_t* values = x + v * depth;
    for (int32_t i = 0; i < depth; ++i) row[i] = static_cast<uint8_t>(values[i]) ^ 0x80u;
    std::memset(row + depth_, 0, static_cast<size_t>(depth_padded_ - depth_));
  }
  uint8_t* ones = unsigned_.data() + count * depth_padded_;
  std::memset(ones, 1, static_cast<size_t>(depth_));
  std::memset(ones + depth_, 0, static_cast<size_t>(depth_padded_ - depth_));
  sign_sums_.resize((count + 1) * columns_);
}

// delta_ = what direction z_k, times mu, adds to each sum.
void ZoDense::MakeDeltas(uint32_t key) {
  const SimdKernels* simd = engine_->simd_kernels();
  const int32_t columns = columns_;
  std::vector<int32_t> constant(static_cast<size_t>(columns), 0);
  if (bias_.unit != 0) {
    for (int32_t c = 0; c < columns_; ++c) {
      const uint32_t word = RngWord(key, bias_.sign_block + static_cast<uint32_t>(c) / 32);
      const int32_t step = problem_.mu * bias_.unit;
      constant[c] = (word >> (c % 32)) & 1u ? step : -step;
    }
  }
  if (weights_.unit != 0) {
    simd->expand_signs(key, weights_.sign_block, static_cast<uint32_t>(columns_) * depth_,
                       signs_.data());
    simd->sign_sums(unsigned_.data(), vectors_ + 1, depth_, depth_padded_, signs_.data(), columns_,
                    sign_sums_.data());
  }
  const int32_t scale = problem_.mu * weights_.unit;
  // Stored inputs are 128 above the int8 code, and the code is input_offset below its value.
  const int32_t offset = layer_.params->input_offset - 128;
  const int32_t* ones = sign_sums_.data() + static_cast<size_t>(vectors_) * columns_;
  for (int32_t c = 0; weights_.unit != 0 && c < columns; ++c) {
    constant[c] = WrapAdd(constant[c], WrapMul(scale, WrapMul(offset, ones[c])));
  }
  for (int32_t v = 0; v < vectors_; ++v) {
    int32_t* delta = delta_.data() + static_cast<size_t>(v) * pitch_;
    if (weights_.unit == 0) {
      std::copy(constant.begin(), constant.end(), delta);
      continue;
    }
    const int32_t* sums = sign_sums_.data() + static_cast<size_t>(v) * columns;
    for (int32_t c = 0; c < columns; ++c) {
      delta[c] = WrapAdd(constant[c], WrapMul(scale, sums[c]));
    }
  }
}

// Loss with sign * delta_ added to the sums.
int64_t ZoDense::LossAt(int32_t sign, const ZoBatch& batch, const ZoLossTable& table) {
  const int32_t* base = base_.data();
  const int32_t* delta = delta_.data();
  int32_t* moved = moved_.data();
  for (size_t i = 0; i < moved_.size(); ++i) {
    moved[i] = WrapAdd(base[i], WrapMul(sign, delta[i]));
  }
  engine_->simd_kernels()->requantize(layer_.packed->scales, columns_, vectors_, moved_.data(),
                                      outputs_.data());
  if (direct_) return table.Sum(outputs_.data(), batch);
  logits_.resize(static_cast<size_t>(batch.samples) *
                 engine_->model().tensors[problem_.logits].bytes());
  engine_->RunLocked(op_ + 1, engine_->operators(), {{output_, outputs_.data()}},
                     {{problem_.logits, logits_.data()}}, batch.samples);
  return table.Sum(logits_.data(), batch);
}

void ZoDense::Losses(const ZoBatch& batch, uint32_t step, int32_t q, const ZoLossTable& table,
                     ZoLosses* losses) {
  LoadInputs(batch);
  if (problem_.estimator == ZoEstimator::kOneSided) {
    std::fill(delta_.begin(), delta_.end(), 0);
    losses->base = LossAt(0, batch, table);
  }
  for (int32_t k = 0; k < q; ++k) {
    MakeDeltas(RngKey(problem_.seed, step, static_cast<uint32_t>(k)));
    losses->plus[k] = LossAt(1, batch, table);
    if (problem_.estimator == ZoEstimator::kTwoSided) {
      losses->minus[k] = LossAt(-1, batch, table);
    }
  }
}

}  // namespace tflm_train
