// Pooling, MEAN and SOFTMAX.
#include <algorithm>
#include <cmath>

#include "micro_ops/core/mean.h"
#include "micro_ops/core/pooling.h"
#include "micro_ops/core/softmax.h"
#include "micro_ops/host/operator_view.h"

namespace tflm_train {
namespace {

class PoolKernel : public Kernel {
 public:
  explicit PoolKernel(const OperatorView& view)
      : average_(view.op().code == Builtin::kAveragePool2D) {
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
        average_ ? AveragePool2DInt8(params_, in, out) : MaxPool2DInt8(params_, in, out);
      }
    }
  }

 private:
  bool average_;
  PoolParams params_ = {};
  int32_t images_ = 1;
  Operand input_, output_;
};

class MeanKernel : public Kernel {
 public:
  explicit MeanKernel(const OperatorView& view) {
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
    input_ = view.InputOperand(0);
    output_ = view.OutputOperand();
  }

  void Run(const Frame& frame) const override {
    for (int32_t s = 0; s < frame.samples; ++s) {
      MeanInt8(params_, input_.At(frame, s), output_.At(frame, s));
    }
  }

 private:
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
