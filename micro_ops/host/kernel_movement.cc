// RESHAPE and its kin, PAD, CONCATENATION; and the choice of a kernel for an operator.
#include <cstring>

#include "micro_ops/core/data_movement.h"
#include "micro_ops/host/operator_view.h"

namespace tflm_train {
namespace {

bool SameQuantization(const Tensor& a, const Tensor& b) {
  return a.scale[0] == b.scale[0] && a.zero_point[0] == b.zero_point[0];
}

class CopyKernel : public Kernel {
 public:
  explicit CopyKernel(const OperatorView& view) {
    view.CheckCounts(1, 2);
    const Tensor& in = view.Int8Input(0);
    const Tensor& out = view.Int8Output();
    view.Require(in.elements == out.elements, "an output of " + std::to_string(in.elements) +
                                                  " values, got " + std::to_string(out.elements) +
                                                  ": " + view.OutputName());
    input_ = view.InputOperand(0);
    output_ = view.OutputOperand();
  }

  void Run(const Frame& frame) const override {
    for (int32_t s = 0; s < frame.samples; ++s) {
      std::memcpy(output_.At(frame, s), input_.At(frame, s), output_.step);
    }
  }

 private:
  Operand input_, output_;
};

class PadKernel : public Kernel {
 public:
  explicit PadKernel(const OperatorView& view) {
    view.CheckCounts(2, 3);
    const Tensor& in = view.Int8Input(0);
    const Tensor& out = view.Int8Output();
    const size_t rank = in.shape.size();
    view.Require(rank <= kMaxRank && out.shape.size() == rank,
                 "at most 6 dimensions and as many in the output: " + view.OutputName());
    const int32_t* padding = view.Constant<int32_t>(1, TensorType::kInt32);
    view.Require(view.Input(1).elements == static_cast<int64_t>(2 * rank),
                 "two paddings for each dimension: " + view.InputName(1));
    params_.rank = static_cast<int32_t>(rank);
    for (size_t d = 0; d < rank; ++d) {
      params_.input_size[d] = in.shape[d];
      params_.before[d] = padding[2 * d];
      params_.after[d] = padding[2 * d + 1];
      view.Require(params_.before[d] >= 0 && params_.after[d] >= 0,
                   "paddings of 0 or more: " + view.InputName(1));
      view.Require(
          static_cast<int64_t>(in.shape[d]) + params_.before[d] + params_.after[d] == out.shape[d],
          "an output as large as input and padding: " + view.OutputName());
    }
    params_.value = static_cast<int8_t>(out.zero_point[0]);
    if (view.HasInput(2)) {
      view.CheckInt8(view.Input(2), view.InputName(2));
      value_ = view.Constant<int8_t>(2, TensorType::kInt8);
      view.Require(view.Input(2).elements == 1 && SameQuantization(view.Input(2), out),
                   "one padding value in the output's quantisation: " + view.InputName(2));
    }
    input_ = view.InputOperand(0);
    output_ = view.OutputOperand();
  }

  void Run(const Frame& frame) const override {
    PadParams params = params_;
    if (value_ != nullptr) params.value = *value_;
    for (int32_t s = 0; s < frame.samples; ++s) {
      PadInt8(params, input_.At(frame, s), output_.At(frame, s));
    }
  }

 private:
  PadParams params_ = {};
  const int8_t* value_ = nullptr;
  Operand input_, output_;
};

class ConcatenationKernel : public Kernel {
 public:
  explicit ConcatenationKernel(const OperatorView& view) {
    view.CheckCounts(1, 1 << 10);
    const Tensor& out = view.Int8Output();
    const int32_t rank = static_cast<int32_t>(out.shape.size());
    const int32_t axis = view.options().axis < 0 ? view.options().axis + rank : view.options().axis;
    view.Require(axis >= 0 && axis < rank,
                 "an axis of the output, got " + std::to_string(view.options().axis));
    view.Require(view.options().activation == 0, "no fused activation");
    for (int32_t d = 0; d < rank; ++d) {
      if (d < axis) outer_ *= out.shape[d];
    }
    output_run_ = static_cast<int32_t>(out.elements / outer_);
    int64_t along = 0;
    for (size_t i = 0; i < view.op().inputs.size(); ++i) {
      view.Require(view.HasInput(i), "an input " + std::to_string(i) + ", got none");
      const Tensor& in = view.Int8Input(i, rank);
      view.Require(SameQuantization(in, out), "the output's quantisation: " + view.InputName(i));
      for (int32_t d = 0; d < rank; ++d) {
        view.Require(
            d == axis || in.shape[d] == out.shape[d],
            "the output's size along dimension " + std::to_string(d) + ": " + view.InputName(i));
      }
      along += in.shape[axis];
      inputs_.push_back(view.InputOperand(i));
      runs_.push_back(static_cast<int32_t>(in.elements / outer_));
    }
    view.Require(along == out.shape[axis], "an output of " + std::to_string(along) +
                                               " along dimension " + std::to_string(axis) + ": " +
                                               view.OutputName());
    output_ = view.OutputOperand();
  }

  void Run(const Frame& frame) const override {
    for (int32_t s = 0; s < frame.samples; ++s) {
      int8_t* out = output_.At(frame, s);
      for (size_t i = 0; i < inputs_.size(); ++i) {
        ConcatenateInt8(outer_, runs_[i], output_run_, inputs_[i].At(frame, s), out);
        out += runs_[i];
      }
    }
  }

 private:
  int32_t outer_ = 1, output_run_ = 0;
  std::vector<Operand> inputs_;
  std::vector<int32_t> runs_;
  Operand output_;
};

}  // namespace

std::unique_ptr<Kernel> MakeCopyKernel(const OperatorView& view) {
  return std::make_unique<CopyKernel>(view);
}
std::unique_ptr<Kernel> MakePadKernel(const OperatorView& view) {
  return std::make_unique<PadKernel>(view);
}
std::unique_ptr<Kernel> MakeConcatenationKernel(const OperatorView& view) {
  return std::make_unique<ConcatenationKernel>(view);
}

std::unique_ptr<Kernel> MakeKernel(const KernelContext& context, int32_t index) {
  const OperatorView view(context, index);
  switch (view.op().code) {
    case Builtin::kConv2D:
      return MakeConvKernel(view);
    case Builtin::kDepthwiseConv2D:
      return MakeDepthwiseKernel(view);
    case Builtin::kFullyConnected:
      return MakeFullyConnectedKernel(view);
    case Builtin::kAveragePool2D:
    case Builtin::kMaxPool2D:
      return MakePoolKernel(view);
    case Builtin::kMean:
      return MakeMeanKernel(view);
    case Builtin::kAdd:
      return MakeAddKernel(view);
    case Builtin::kMul:
      return MakeMulKernel(view);
    case Builtin::kSoftmax:
      return MakeSoftmaxKernel(view);
    case Builtin::kReshape:
    case Builtin::kSqueeze:
    case Builtin::kExpandDims:
      return MakeCopyKernel(view);
    case Builtin::kPad:
    case Builtin::kPadV2:
      return MakePadKernel(view);
    case Builtin::kConcatenation:
      return MakeConcatenationKernel(view);
    case Builtin::kQuantize:
    case Builtin::kRelu:
    case Builtin::kRelu6:
    case Builtin::kReluN1To1:
    case Builtin::kLeakyRelu:
    case Builtin::kLogistic:
      return MakePointwiseKernel(view);
    case Builtin::kCustom:
      break;
  }
  view.Require(false,
               "an operator the native engine runs (ADD, AVERAGE_POOL_2D, CONCATENATION, CONV_2D, "
               "DEPTHWISE_CONV_2D, EXPAND_DIMS, FULLY_CONNECTED, LEAKY_RELU, LOGISTIC, "
               "MAX_POOL_2D, MEAN, MUL, PAD, PADV2, QUANTIZE, RELU, RELU6, RELU_N1_TO_1, RESHAPE, "
               "SOFTMAX, SQUEEZE): use engine 'litert' for this model");
  return nullptr;
}

}  // namespace tflm_train
