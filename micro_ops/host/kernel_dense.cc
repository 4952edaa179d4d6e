// FULLY_CONNECTED: a matrix product of input rows and packed weights.
#include <cmath>

#include "micro_ops/core/fully_connected.h"
#include "micro_ops/host/conv_setup.h"

namespace tflm_train {
namespace {

class DenseKernel : public Kernel {
 public:
  explicit DenseKernel(const OperatorView& view) : simd_(view.simd()) {
    view.CheckCounts(2, 3);
    const Tensor& input = view.Int8Input(0);
    const Tensor& output = view.Int8Output();
    view.Require(view.options().weights_format == 0, "weights in the default format");
    view.Require(view.Input(1).shape.size() == 2, "weights of 2 dimensions: " + view.InputName(1));
    const Tensor& filter = view.Filter(1, 2, 0, view.Input(1).shape[0]);
    params_.output_depth = filter.shape[0];
    params_.input_depth = filter.shape[1];
    view.Require(input.elements % params_.input_depth == 0,
                 "an input of whole rows of " + std::to_string(params_.input_depth) + ": " +
                     view.InputName(0));
    rows_ = static_cast<int32_t>(input.elements / params_.input_depth);
    view.Require(output.elements == static_cast<int64_t>(rows_) * params_.output_depth,
                 std::to_string(rows_) + " x " + std::to_string(params_.output_depth) +
                     " values: " + view.OutputName());
    bias_ = view.Bias(2, params_.output_depth);
    params_.input_offset = -static_cast<int32_t>(input.zero_point[0]);
    params_.output_offset = static_cast<int32_t>(output.zero_point[0]);
    view.ActivationRange(&params_.activation_min, &params_.activation_max);
    SetScales(view, input, filter, output);
    input_ = view.InputOperand(0);
    filter_ = view.InputOperand(1);
    output_ = view.OutputOperand();
    if (filter.constant) constant_filter_ = view.Constant<int8_t>(1, TensorType::kInt8);
    if (simd_ != nullptr && filter.constant && !input.constant) {
      filter_data_ = constant_filter_;
      packed_.Resize(params_.output_depth, params_.input_depth, simd_->depth_step);
      packed_.scales.SetScales(params_.output_depth, params_.multiplier, params_.shift,
                               params_.channel_step);
      packed_.scales.output_offset = params_.output_offset;
      packed_.scales.activation_min = params_.activation_min;
      packed_.scales.activation_max = params_.activation_max;
      Repack();
    }
  }

  void Repack() override {
    if (filter_data_ != nullptr) {
      packed_.Pack(filter_data_, bias_, params_.input_offset - simd_->input_bias);
    }
  }

  bool Dense(DenseLayer* layer) const override {
    *layer = {&params_, rows_, filter_data_ ? &packed_ : nullptr, constant_filter_, bias_};
    return constant_filter_ != nullptr;
  }

  size_t scratch_bytes() const override {
    return filter_data_ ? static_cast<size_t>(RowsAtATime(row_bytes())) * row_bytes() + 64 : 0;
  }

  void Run(const Frame& frame) const override {
    if (filter_data_ == nullptr) {
      for (int32_t s = 0; s < frame.samples; ++s) {
        FullyConnectedInt8(params_, rows_, input_.At(frame, s), filter_.At(frame, s), bias_,
                           output_.At(frame, s));
      }
      return;
    }
    const int32_t rows = rows_ * frame.samples, block = RowsAtATime(row_bytes());
    const int8_t* in = input_.At(frame, 0);
    int8_t* out = output_.At(frame, 0);
    for (int32_t row = 0; row < rows; row += block) {
      const int32_t count = std::min(block, rows - row);
      for (int32_t r = 0; r < count; ++r, in += params_.input_depth) {
        simd_->convert(in, params_.input_depth, frame.scratch + r * row_bytes());
      }
      simd_->gemm(packed_, frame.scratch, count, out);
      out += static_cast<size_t>(count) * params_.output_depth;
    }
  }

 private:
  int32_t row_bytes() const { return packed_.depth_padded * simd_->input_bytes; }

  void SetScales(const OperatorView& view, const Tensor& input, const Tensor& filter,
                 const Tensor& output) {
    const double input_scale = static_cast<double>(input.scale[0]);
    const double output_scale = static_cast<double>(output.scale[0]);
    // TFLM up to the summer of 2026 multiplied input and weight scale in float when there is one
    // weight scale; since then it is double in every case.
    for (float s : filter.scale) {
      scales_.Add(view.Scale(input_scale * static_cast<double>(s) / output_scale));
    }
    if (filter.scale.size() == 1 && view.HasInput(2) && view.Input(2).scale.size() == 1) {
      const double product = input_scale * static_cast<double>(filter.scale[0]);
      const double difference = std::abs(static_cast<double>(view.Input(2).scale[0]) - product);
      view.Require(difference / output_scale <= 0.02,
                   "a bias scale equal to input scale times weight scale: " + view.InputName(2));
    }
    params_.multiplier = scales_.multiplier.data();
    params_.shift = scales_.shift.data();
    params_.channel_step = scales_.step;
  }

  const SimdKernels* simd_;
  FullyConnectedParams params_ = {};
  ChannelScales scales_;
  int32_t rows_ = 0;
  const int8_t* constant_filter_ = nullptr;
  const int8_t* filter_data_ = nullptr;  // set when weights are packed
  const int32_t* bias_ = nullptr;
  PackedGemm packed_;
  Operand input_, filter_, output_;
};

}  // namespace

std::unique_ptr<Kernel> MakeFullyConnectedKernel(const OperatorView& view) {
  return std::make_unique<DenseKernel>(view);
}

}  // namespace tflm_train
