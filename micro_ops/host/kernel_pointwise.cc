// ADD, MUL and the functions of one int8 value, which are tables of 256 entries here.
#include <algorithm>
#include <cmath>

#include "micro_ops/core/activations.h"
#include "micro_ops/core/elementwise.h"
#include "micro_ops/host/operator_view.h"

namespace tflm_train {
namespace {

BroadcastShape CheckBroadcast(const OperatorView& view) {
  view.CheckCounts(2, 2);
  const Tensor& a = view.Int8Input(0);
  const Tensor& b = view.Int8Input(1);
  const Tensor& out = view.Int8Output();
  BroadcastShape shape;
  view.Require(MakeBroadcastShape(a.shape.data(), static_cast<int32_t>(a.shape.size()),
                                  b.shape.data(), static_cast<int32_t>(b.shape.size()), &shape),
               "shapes of at most 6 dimensions that broadcast: " + view.InputName(0) + " and " +
                   view.InputName(1));
  int64_t elements = 1;
  for (int32_t d = 0; d < shape.rank; ++d) elements *= shape.size[d];
  view.Require(elements == out.elements, std::to_string(elements) + " outputs, got " +
                                             std::to_string(out.elements) + ": " +
                                             view.OutputName());
  return shape;
}

class AddKernel : public Kernel {
 public:
  explicit AddKernel(const OperatorView& view) : shape_(CheckBroadcast(view)), simd_(view.simd()) {
    const Tensor& a = view.Input(0);
    const Tensor& b = view.Input(1);
    const Tensor& out = view.Output();
    params_.input1_offset = -static_cast<int32_t>(a.zero_point[0]);
    params_.input2_offset = -static_cast<int32_t>(b.zero_point[0]);
    params_.output_offset = static_cast<int32_t>(out.zero_point[0]);
    // Both inputs are brought to twice the larger scale, with 20 fraction bits.
    const double twice = 2.0 * static_cast<double>(std::max(a.scale[0], b.scale[0]));
    const Multiplier first = view.Scale(static_cast<double>(a.scale[0]) / twice);
    const Multiplier second = view.Scale(static_cast<double>(b.scale[0]) / twice);
    const double ratio = twice / ((1 << 20) * static_cast<double>(out.scale[0]));
    view.Require(ratio < 1.0,
                 "an output scale not 2^19 times below the inputs': " + view.OutputName());
    const Multiplier last = view.Scale(ratio);
    params_.input1_multiplier = first.multiplier;
    params_.input1_shift = first.shift;
    params_.input2_multiplier = second.multiplier;
    params_.input2_shift = second.shift;
    params_.output_multiplier = last.multiplier;
    params_.output_shift = last.shift;
    view.ActivationRange(&params_.activation_min, &params_.activation_max);
    a_ = view.InputOperand(0);
    b_ = view.InputOperand(1);
    out_ = view.OutputOperand();
  }

  void Run(const Frame& frame) const override {
    const bool plain = shape_.rank == 1 && shape_.step1[0] == 1 && shape_.step2[0] == 1;
    for (int32_t s = 0; s < frame.samples; ++s) {
      if (simd_ != nullptr && plain) {
        simd_->add(params_, shape_.size[0], a_.At(frame, s), b_.At(frame, s), out_.At(frame, s));
      } else {
        AddInt8(params_, shape_, a_.At(frame, s), b_.At(frame, s), out_.At(frame, s));
      }
    }
  }

 private:
  BroadcastShape shape_;
  const SimdKernels* simd_;
  AddParams params_ = {};
  Operand a_, b_, out_;
};

class MulKernel : public Kernel {
 public:
  explicit MulKernel(const OperatorView& view) : shape_(CheckBroadcast(view)) {
    const Tensor& a = view.Input(0);
    const Tensor& b = view.Input(1);
    const Tensor& out = view.Output();
    const Multiplier m =
        view.Scale(static_cast<double>(a.scale[0]) * static_cast<double>(b.scale[0]) /
                   static_cast<double>(out.scale[0]));
    params_ = {-static_cast<int32_t>(a.zero_point[0]),
               -static_cast<int32_t>(b.zero_point[0]),
               static_cast<int32_t>(out.zero_point[0]),
               m.multiplier,
               m.shift,
               0,
               0};
    view.ActivationRange(&params_.activation_min, &params_.activation_max);
    a_ = view.InputOperand(0);
    b_ = view.InputOperand(1);
    out_ = view.OutputOperand();
  }

  void Run(const Frame& frame) const override {
    for (int32_t s = 0; s < frame.samples; ++s) {
      MulInt8(params_, shape_, a_.At(frame, s), b_.At(frame, s), out_.At(frame, s));
    }
  }

 private:
  BroadcastShape shape_;
  MulParams params_ = {};
  Operand a_, b_, out_;
};

// A function of one int8 value, by table.
class TableKernel : public Kernel {
 public:
  explicit TableKernel(const OperatorView& view) {
    view.CheckCounts(1, 1);
    const Tensor& in = view.Int8Input(0);
    const Tensor& out = view.Int8Output();
    view.Require(in.elements == out.elements, std::to_string(in.elements) + " outputs, got " +
                                                  std::to_string(out.elements) + ": " +
                                                  view.OutputName());
    int8_t all[256];
    for (int32_t i = 0; i < 256; ++i) all[i] = static_cast<int8_t>(i - 128);
    Fill(view, all);
    input_ = view.InputOperand(0);
    output_ = view.OutputOperand();
    size_ = static_cast<int32_t>(in.elements);
  }

  void Run(const Frame& frame) const override {
    for (int32_t s = 0; s < frame.samples; ++s) {
      const int8_t* in = input_.At(frame, s);
      int8_t* out = output_.At(frame, s);
      for (int32_t i = 0; i < size_; ++i) out[i] = table_[in[i] + 128];
    }
  }

 private:
  void Fill(const OperatorView& view, const int8_t* all) {
    const Tensor& in = view.Input(0);
    const Tensor& out = view.Output();
    const float in_scale = in.scale[0], out_scale = out.scale[0];
    const int32_t in_zero = static_cast<int32_t>(in.zero_point[0]);
    const int32_t out_zero = static_cast<int32_t>(out.zero_point[0]);
    switch (view.op().code) {
      case Builtin::kQuantize: {
        const Multiplier m =
            view.Scale(static_cast<double>(in_scale) / static_cast<double>(out_scale));
        RequantizeInt8({in_zero, out_zero, m.multiplier, m.shift, -128, 127}, 256, all, table_);
        return;
      }
      case Builtin::kRelu: {
        const Multiplier m = view.Scale(static_cast<double>(in_scale / out_scale));
        RequantizeInt8({in_zero, out_zero, m.multiplier, m.shift, std::max(-128, out_zero), 127},
                       256, all, table_);
        return;
      }
      case Builtin::kRelu6:
        ClampInt8(in_zero, Code(6.0f, in_scale, in_zero), 256, all, table_);
        return;
      case Builtin::kReluN1To1:
        ClampInt8(Code(-1.0f, in_scale, in_zero), Code(1.0f, in_scale, in_zero), 256, all, table_);
        return;
      case Builtin::kLeakyRelu: {
        const float alpha = view.options().alpha;
        const double slope = static_cast<double>(in_scale * alpha / out_scale);
        const Multiplier a = view.Scale(std::abs(slope));
        const Multiplier i = view.Scale(static_cast<double>(in_scale / out_scale));
        LeakyReluInt8({in_zero, out_zero, i.multiplier, i.shift,
                       slope < 0 ? -a.multiplier : a.multiplier, a.shift},
                      256, all, table_);
        return;
      }
      default:
        FillLogistic(view, all);
    }
  }

  void FillLogistic(const OperatorView& view, const int8_t* all) {
    const Tensor& in = view.Input(0);
    view.Require(view.Output().zero_point[0] == -128,
                 "an output of zero point -128: " + view.OutputName());
    const Multiplier m = view.Scale(static_cast<double>(in.scale[0]) * (1 << 27));
    view.Require(m.shift >= 0, "a scale above 2^-28: " + view.InputName(0));
    const int32_t radius = static_cast<int32_t>(
        std::floor(15.0 * (1 << 27) / static_cast<double>(int64_t{1} << m.shift)));
    LogisticInt8({static_cast<int32_t>(in.zero_point[0]), m.multiplier, m.shift, radius}, 256, all,
                 table_);
  }

  static int32_t Code(float value, float scale, int32_t zero_point) {
    const float q = std::round(value / scale);
    return static_cast<int32_t>(
        std::min(127.0, std::max(-128.0, static_cast<double>(q) + zero_point)));
  }

  int8_t table_[256] = {0};
  int32_t size_ = 0;
  Operand input_, output_;
};

}  // namespace

std::unique_ptr<Kernel> MakeAddKernel(const OperatorView& view) {
  return std::make_unique<AddKernel>(view);
}
std::unique_ptr<Kernel> MakeMulKernel(const OperatorView& view) {
  return std::make_unique<MulKernel>(view);
}
std::unique_ptr<Kernel> MakePointwiseKernel(const OperatorView& view) {
  return std::make_unique<TableKernel>(view);
}

}  // namespace tflm_train
