#include "micro_ops/host/operator_view.h"

#include <algorithm>
#include <cmath>

namespace tflm_train {
namespace {

constexpr int32_t kMaxWindow = 1 << 12;  // filter, stride, dilation: far above any real model

}  // namespace

void OperatorView::Require(bool ok, const std::string& expectation) const {
  if (!ok) {
    throw ModelError("operator " + std::to_string(index_) + " " + op_.name + ": Expected " +
                     expectation);
  }
}

void OperatorView::CheckCounts(size_t least_inputs, size_t most_inputs) const {
  Require(op_.inputs.size() >= least_inputs && op_.inputs.size() <= most_inputs,
          std::to_string(least_inputs) + " to " + std::to_string(most_inputs) + " inputs, got " +
              std::to_string(op_.inputs.size()));
  Require(op_.outputs.size() == 1, "one output, got " + std::to_string(op_.outputs.size()));
  for (size_t i = 0; i < least_inputs; ++i) {
    Require(op_.inputs[i] >= 0, "an input " + std::to_string(i) + ", got none");
  }
}

const Tensor& OperatorView::Input(size_t i) const { return context_.model.tensors[op_.inputs[i]]; }

Operand OperatorView::InputOperand(size_t i) const {
  const Tensor& tensor = Input(i);
  return {op_.inputs[i], tensor.constant ? 0 : tensor.bytes()};
}

Operand OperatorView::OutputOperand() const { return {op_.outputs[0], Output().bytes()}; }

void OperatorView::CheckInt8(const Tensor& tensor, const std::string& name) const {
  Require(tensor.type == TensorType::kInt8,
          "int8, got " + TypeName(static_cast<int32_t>(tensor.type)) + ": " + name);
  Require(tensor.scale.size() == 1 && tensor.scale[0] > 0.0f,
          "one scale above 0, got " + std::to_string(tensor.scale.size()) + " scales: " + name);
  Require(tensor.zero_point[0] >= -128 && tensor.zero_point[0] <= 127,
          "a zero point of -128 to 127, got " + std::to_string(tensor.zero_point[0]) + ": " + name);
  Require(tensor.elements > 0, "no size of 0: " + name);
}

const Tensor& OperatorView::Int8Input(size_t i, int32_t rank) const {
  const Tensor& tensor = Input(i);
  CheckInt8(tensor, InputName(i));
  Require(rank < 0 || tensor.shape.size() == static_cast<size_t>(rank),
          std::to_string(rank) + " dimensions, got " + std::to_string(tensor.shape.size()) + ": " +
              InputName(i));
  return tensor;
}

const Tensor& OperatorView::Int8Output(int32_t rank) const {
  const Tensor& tensor = Output();
  CheckInt8(tensor, OutputName());
  Require(!tensor.constant, "an output without data: " + OutputName());
  Require(rank < 0 || tensor.shape.size() == static_cast<size_t>(rank),
          std::to_string(rank) + " dimensions, got " + std::to_string(tensor.shape.size()) + ": " +
              OutputName());
  return tensor;
}

void OperatorView::CheckConstant(size_t i, TensorType type) const {
  Require(HasInput(i), "an input " + std::to_string(i) + ", got none");
  Require(Input(i).constant, "a constant: " + InputName(i));
  Require(Input(i).type == type, TypeName(static_cast<int32_t>(type)) + ", got " +
                                     TypeName(static_cast<int32_t>(Input(i).type)) + ": " +
                                     InputName(i));
}

const Tensor& OperatorView::Filter(size_t i, int32_t rank, int32_t dimension,
                                   int32_t channels) const {
  const Tensor& tensor = Input(i);
  const std::string name = InputName(i);
  Require(tensor.type == TensorType::kInt8,
          "int8 weights, got " + TypeName(static_cast<int32_t>(tensor.type)) + ": " + name);
  Require(tensor.shape.size() == static_cast<size_t>(rank) && tensor.elements > 0,
          "weights of " + std::to_string(rank) + " dimensions, none of 0: " + name);
  const size_t scales = tensor.scale.size();
  Require(
      scales == 1 || scales == static_cast<size_t>(channels),
      "one scale or " + std::to_string(channels) + ", got " + std::to_string(scales) + ": " + name);
  Require(scales == 1 || tensor.quantized_dimension == dimension,
          "scales along dimension " + std::to_string(dimension) + ", got " +
              std::to_string(tensor.quantized_dimension) + ": " + name);
  for (int64_t zero_point : tensor.zero_point) {
    Require(zero_point == 0,
            "weights with zero point 0, got " + std::to_string(zero_point) + ": " + name);
  }
  return tensor;
}

const int32_t* OperatorView::Bias(size_t i, int32_t channels) const {
  if (!HasInput(i)) return nullptr;
  const int32_t* bias = Constant<int32_t>(i, TensorType::kInt32);
  Require(Input(i).elements == channels, std::to_string(channels) + " biases, got " +
                                             std::to_string(Input(i).elements) + ": " +
                                             InputName(i));
  return bias;
}

Multiplier OperatorView::Scale(double value) const {
  Require(std::isfinite(value) && value >= 0.0, "finite scales: " + OutputName());
  const Multiplier m = QuantizeMultiplier(value);
  Require(m.shift <= 30,
          "scales whose ratio is below 2^30, got " + std::to_string(value) + ": " + OutputName());
  return m;
}

// The output's code for a real value; float arithmetic, as TFLM has it.
int32_t OperatorView::Quantize(float value) const {
  const float q = std::round(value / Output().scale[0]);
  Require(q >= -2147483648.0f && q < 2147483648.0f - 128.0f, "a larger scale: " + OutputName());
  return static_cast<int32_t>(Output().zero_point[0]) + static_cast<int32_t>(q);
}

void OperatorView::ActivationRange(int32_t* low, int32_t* high) const {
  *low = -128;
  *high = 127;
  const int32_t activation = op_.options.activation;
  switch (static_cast<Activation>(activation)) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      *low = std::max(*low, Quantize(0.0f));
      return;
    case Activation::kRelu6:
      *low = std::max(*low, Quantize(0.0f));
      *high = std::min(*high, Quantize(6.0f));
      return;
    case Activation::kReluN1To1:
      *low = std::max(*low, Quantize(-1.0f));
      *high = std::min(*high, Quantize(1.0f));
      return;
  }
  Require(false, "fused activation NONE, RELU, RELU6 or RELU_N1_TO_1, got number " +
                     std::to_string(activation));
}

Padding ComputePadding(const OperatorView& view, bool same, int32_t input, int32_t filter,
                       int32_t stride, int32_t dilation) {
  view.Require(filter >= 1 && filter <= kMaxWindow && stride >= 1 && stride <= kMaxWindow &&
                   dilation >= 1 && dilation <= kMaxWindow,
               "filter size, stride and dilation of 1 to 4096, got " + std::to_string(filter) +
                   ", " + std::to_string(stride) + ", " + std::to_string(dilation));
  const int64_t effective = (static_cast<int64_t>(filter) - 1) * dilation + 1;
  const int64_t output = same ? (static_cast<int64_t>(input) + stride - 1) / stride
                              : (static_cast<int64_t>(input) + stride - effective) / stride;
  view.Require(output >= 1, "a filter that fits into the input (" + std::to_string(effective) +
                                " > " + std::to_string(input) + ")");
  const int64_t total = std::max<int64_t>((output - 1) * stride + effective - input, 0);
  return {static_cast<int32_t>(output), static_cast<int32_t>(total / 2)};
}

}  // namespace tflm_train
