// Pooling, MEAN and SOFTMAX.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "micro_ops/core/mean.h"
#include "micro_ops/core/pooling.h"
#include "micro_ops/core/softmax.h"
#include "micro_ops/core/window.h"
#include "micro_ops/host/operator_view.h"

namespace tflm_train {
namespace {

class PoolKernel : public Kernel {
 public:
  explicit PoolKernel(const OperatorView& view)
      : average_(view.op().code == Builtin::kAveragePool2D), simd_(view.simd()) {
    view.CheckCounts(1, 1);
    const Tensor& in = view.Int8Input(0, 4);
    const Tensor& out = view.Int8Output(4);
    const Options& o = view.options();
    const Padding y =
        ComputePadding(view, o.same_padding, in.shape[1], o.filter_height, o.stride_height, 1);
    const Padding x =
        ComputePadding(view, o.same_padding, in.shape[2], o.filter_width, o.stride_width, 1);
    view.Require(out.shape[0] == in.shape[0] && out.shape[1] == y.size && out.shape[2] == x.size &&
                     out.shape[3] == in.shape[3],
                 "an output of " + std::to_string(y.size) + " x " + std::to_string(x.size) + " x " +
                     std::to_string(in.shape[3]) + ": " + view.OutputName());
    view.Require(
        std::abs(in.scale[0] - out.scale[0]) <= 1.0e-6f && in.zero_point[0] == out.zero_point[0],
        "one quantisation for input and output: " + view.OutputName());
    params_ = {in.shape[1],
               in.shape[2],
               in.shape[3],
               y.size,
               x.size,
               o.filter_height,
               o.filter_width,
               o.stride_height,
               o.stride_width,
               y.before,
               x.before,
               0,
               0};
    view.ActivationRange(&params_.activation_min, &params_.activation_max);
    images_ = in.shape[0];
    input_ = view.InputOperand(0);
    output_ = view.OutputOperand();
  }

  void Run(const Frame& frame) const override {
    const int32_t in_size = params_.input_height * params_.input_width * params_.depth;
    const int32_t out_size = params_.output_height * params_.output_width * params_.depth;
    for (int32_t s = 0; s < frame.samples; ++s) {
      for (int32_t i = 0; i < images_; ++i) {
        const int8_t* in = input_.At(frame, s) + i * in_size;
        int8_t* out = output_.At(frame, s) + i * out_size;
        if (simd_ != nullptr) {
          RunRows(in, reinterpret_cast<int32_t*>(frame.scratch), out);
        } else {
          average_ ? AveragePool2DInt8(params_, in, out) : MaxPool2DInt8(params_, in, out);
        }
      }
    }
  }

  size_t scratch_bytes() const override {
    return simd_ ? 2 * sizeof(int32_t) * static_cast<size_t>(params_.depth) : 0;
  }

 private:
  // All channels of a window at once.
  void RunRows(const int8_t* in, int32_t* sums, int8_t* out) const {
    const PoolParams& p = params_;
    const int32_t pitch = p.input_width * p.depth;
    for (int32_t oy = 0; oy < p.output_height; ++oy) {
      const Window y =
          MakeWindow(oy * p.stride_height - p.pad_top, 1, p.filter_height, p.input_height);
      for (int32_t ox = 0; ox < p.output_width; ++ox, out += p.depth) {
        const Window x =
            MakeWindow(ox * p.stride_width - p.pad_left, 1, p.filter_width, p.input_width);
        const int8_t* first = in + (y.origin + y.begin) * pitch + (x.origin + x.begin) * p.depth;
        const int32_t rows = y.end - y.begin, columns = x.end - x.begin;
        average_ ? Average(first, rows, columns, pitch, sums, out)
                 : Maximum(first, rows, columns, pitch, out);
      }
    }
  }

  void Average(const int8_t* first, int32_t rows, int32_t columns, int32_t pitch, int32_t* sums,
               int8_t* out) const {
    const int32_t depth = params_.depth, count = rows * columns;
    simd_->sum_rows(first, columns, depth, depth, sums);
    for (int32_t r = 1; r < rows; ++r) {
      simd_->sum_rows(first + r * pitch, columns, depth, depth, sums + depth);
      for (int32_t c = 0; c < depth; ++c) sums[c] += sums[depth + c];
    }
    for (int32_t c = 0; c < depth; ++c) {
      const int32_t sum = sums[c];
      const int32_t mean = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
      out[c] = static_cast<int8_t>(Clamp(mean, params_.activation_min, params_.activation_max));
    }
  }

  void Maximum(const int8_t* first, int32_t rows, int32_t columns, int32_t pitch,
               int8_t* out) const {
    const int32_t depth = params_.depth;
    std::memset(out, params_.activation_min, static_cast<size_t>(depth));
    for (int32_t r = 0; r < rows; ++r) {
      for (int32_t x = 0; x < columns; ++x) {
        simd_->max_row(first + r * pitch + x * depth, depth, out);
      }
    }
    if (params_.activation_max < 127) {
      for (int32_t c = 0; c < depth; ++c) {
        out[c] = static_cast<int8_t>(std::min<int32_t>(out[c], params_.activation_max));
      }
    }
  }

  bool average_;
  const SimdKernels* simd_;
  PoolParams params_ = {};
  int32_t images_ = 1;
  Operand input_, output_;
};

class MeanKernel : public Kernel {
 public:
  explicit MeanKernel(const OperatorView& view) : simd_(view.simd()) {
    view.CheckCounts(2, 2);
    const Tensor& in = view.Int8Input(0);
    const Tensor& out = view.Int8Output();
    const int32_t rank = static_cast<int32_t>(in.shape.size());
    view.Require(rank <= kMaxRank, "at most 6 dimensions: " + view.InputName(0));
    const int32_t* axis = view.Constant<int32_t>(1, TensorType::kInt32);
    uint32_t axes = 0;
    for (int64_t i = 0; i < view.Input(1).elements; ++i) {
      const int32_t a = axis[i] < 0 ? axis[i] + rank : axis[i];
      view.Require(a >= 0 && a < rank, "axes of " + std::to_string(rank) + " dimensions, got " +
                                           std::to_string(axis[i]) + ": " + view.InputName(1));
      axes |= 1u << a;
    }
    MakeMeanShape(in.shape.data(), rank, axes, &params_);
    int64_t kept = 1;
    for (int32_t d = 0; d < params_.kept_rank; ++d) kept *= params_.kept_size[d];
    view.Require(out.elements == kept, std::to_string(kept) + " outputs, got " +
                                           std::to_string(out.elements) + ": " + view.OutputName());
    // The sum of that many int8 values stays in 32 bits.
    view.Require(in.elements / kept <= 1 << 23, "a mean of at most 2^23 values");
    params_.input_zero_point = static_cast<int32_t>(in.zero_point[0]);
    params_.output_zero_point = static_cast<int32_t>(out.zero_point[0]);
    const Multiplier m =
        view.Scale(static_cast<double>(in.scale[0]) / static_cast<double>(out.scale[0]));
    MeanScale(m.multiplier, m.shift, static_cast<int32_t>(in.elements / kept), &params_);
    if (rank > 0 && kept == in.shape.back() && !((axes >> (rank - 1)) & 1u)) {
      channels_ = static_cast<int32_t>(kept);
      positions_ = static_cast<int32_t>(in.elements / kept);
    }
    input_ = view.InputOperand(0);
    output_ = view.OutputOperand();
  }

  void Run(const Frame& frame) const override {
    for (int32_t s = 0; s < frame.samples; ++s) {
      const int8_t* in = input_.At(frame, s);
      int8_t* out = output_.At(frame, s);
      if (simd_ != nullptr && channels_ > 0) {
        RunChannels(in, reinterpret_cast<int32_t*>(frame.scratch), out);
      } else {
        MeanInt8(params_, in, out);
      }
    }
  }

  size_t scratch_bytes() const override { return sizeof(int32_t) * static_cast<size_t>(channels_); }

 private:
  // The mean over all positions of each channel.
  void RunChannels(const int8_t* in, int32_t* sums, int8_t* out) const {
    simd_->sum_rows(in, positions_, channels_, channels_, sums);
    for (int32_t c = 0; c < channels_; ++c) {
      out[c] = RequantizeSum(sums[c] - params_.input_zero_point * positions_, params_.multiplier,
                             params_.shift, params_.output_zero_point, -128, 127);
    }
  }

  const SimdKernels* simd_;
  // Set when all dimensions but the last, and sizes of 1, are averaged.
  int32_t channels_ = 0, positions_ = 0;
  MeanParams params_ = {};
  Operand input_, output_;
};

// exp has 256 possible arguments: they are tabulated, with the bits of SoftmaxInt8.
class SoftmaxKernel : public Kernel {
 public:
  explicit SoftmaxKernel(const OperatorView& view) {
    view.CheckCounts(1, 1);
    const Tensor& in = view.Int8Input(0);
    const Tensor& out = view.Int8Output();
    view.Require(!in.shape.empty() && in.shape == out.shape,
                 "an output of the input's shape: " + view.OutputName());
    view.Require(out.zero_point[0] == -128 && out.scale[0] == 1.0f / 256.0f,
                 "an output of scale 1/256 and zero point -128: " + view.OutputName());
    SoftmaxParams params;
    params.depth = in.shape.back();
    view.Require(params.depth <= kSoftmaxMaxDepth,
                 "at most " + std::to_string(kSoftmaxMaxDepth) + " classes: " + view.InputName(0));
    // Scale times beta with 5 integer bits; a larger one saturates, since then every class below
    // the highest gets 0 anyway.
    const double beta = static_cast<double>(view.options().beta);
    const double scale = beta * static_cast<double>(in.scale[0]) * (1 << 26);
    view.Require(scale > 1.0, "a scale times beta above 2^-26: " + view.InputName(0));
    const Multiplier m = QuantizeMultiplier(std::min(scale, 2147483647.0));
    params.input_multiplier = m.multiplier;
    params.input_left_shift = m.shift;
    params.diff_min = -static_cast<int32_t>(
        std::floor(31.0 * (1 << 26) / static_cast<double>(int64_t{1} << m.shift)));
    depth_ = params.depth;
    rows_ = static_cast<int32_t>(in.elements / depth_);
    lowest_ = std::max(params.diff_min, -255);
    for (int32_t diff = lowest_; diff <= 0; ++diff) {
      exp_[-diff] = SoftmaxExp(params, diff);
      addend_[-diff] = RoundingShiftRight(exp_[-diff], 12);
    }
    input_ = view.InputOperand(0);
    output_ = view.OutputOperand();
  }

  void Run(const Frame& frame) const override {
    for (int32_t s = 0; s < frame.samples; ++s) {
      const int8_t* in = input_.At(frame, s);
      int8_t* out = output_.At(frame, s);
      for (int32_t r = 0; r < rows_; ++r, in += depth_, out += depth_) RunRow(in, out);
    }
  }

 private:
  void RunRow(const int8_t* in, int8_t* out) const {
    const int32_t highest = *std::max_element(in, in + depth_);
    int32_t sum = 0;
    for (int32_t c = 0; c < depth_; ++c) sum += addend_[highest - in[c]];
    int32_t exponent;
    const int32_t scale = SoftmaxReciprocal(sum, &exponent);
    // One output per difference, made when it is first met; -129 marks the others.
    int16_t outputs[256];
    std::fill_n(outputs, 256, int16_t{-129});
    for (int32_t c = 0; c < depth_; ++c) {
      const int32_t diff = highest - in[c];
      if (outputs[diff] == -129) {
        int32_t value = -128;
        if (-diff >= lowest_) {
          value += RoundingShiftRight(DoublingHighMul(scale, exp_[diff]), exponent);
        }
        outputs[diff] = static_cast<int16_t>(Clamp(value, -128, 127));
      }
      out[c] = static_cast<int8_t>(outputs[diff]);
    }
  }

  int32_t depth_ = 0, rows_ = 0, lowest_ = 0;
  int32_t exp_[256] = {0};
  int32_t addend_[256] = {0};
  Operand input_, output_;
};

}  // namespace

std::unique_ptr<Kernel> MakePoolKernel(const OperatorView& view) {
  return std::make_unique<PoolKernel>(view);
}
std::unique_ptr<Kernel> MakeMeanKernel(const OperatorView& view) {
  return std::make_unique<MeanKernel>(view);
}
std::unique_ptr<Kernel> MakeSoftmaxKernel(const OperatorView& view) {
  return std::make_unique<SoftmaxKernel>(view);
}

}  // namespace tflm_train
