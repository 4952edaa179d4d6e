#include "micro_ops/host/conv_setup.h"

namespace tflm_train {

ConvSetup::ConvSetup(const OperatorView& view, int32_t channel_dimension) {
  view.CheckCounts(2, 3);
  const Tensor& in = view.Int8Input(0, 4);
  const Tensor& out = view.Int8Output(4);
  view.Require(view.Input(1).shape.size() == 4, "weights of 4 dimensions: " + view.InputName(1));
  const Tensor& f = view.Filter(1, 4, channel_dimension, view.Input(1).shape[channel_dimension]);
  const Options& o = view.options();
  const Padding y = ComputePadding(view, o.same_padding, in.shape[1], f.shape[1], o.stride_height,
                                   o.dilation_height);
  const Padding x = ComputePadding(view, o.same_padding, in.shape[2], f.shape[2], o.stride_width,
                                   o.dilation_width);
  view.Require(out.shape[0] == in.shape[0] && out.shape[1] == y.size && out.shape[2] == x.size &&
                   out.shape[3] == f.shape[channel_dimension],
               "an output of " + std::to_string(y.size) + " x " + std::to_string(x.size) + " x " +
                   std::to_string(f.shape[channel_dimension]) + ": " + view.OutputName());
  params = {in.shape[1],
            in.shape[2],
            in.shape[3],
            f.shape[1],
            f.shape[2],
            f.shape[3],
            y.size,
            x.size,
            out.shape[3],
            o.stride_height,
            o.stride_width,
            o.dilation_height,
            o.dilation_width,
            y.before,
            x.before,
            -static_cast<int32_t>(in.zero_point[0]),
            static_cast<int32_t>(out.zero_point[0]),
            0,
            0,
            nullptr,
            nullptr,
            0};
  view.ActivationRange(&params.activation_min, &params.activation_max);
  for (float s : f.scale) {
    scales.Add(view.Scale(static_cast<double>(in.scale[0]) * static_cast<double>(s) /
                          static_cast<double>(out.scale[0])));
  }
  params.multiplier = scales.multiplier.data();
  params.shift = scales.shift.data();
  params.channel_step = scales.step;
  bias = view.Bias(2, params.output_depth);
  input = view.InputOperand(0);
  filter = view.InputOperand(1);
  output = view.OutputOperand();
  constant_filter = f.constant;
  images = in.shape[0];
}

}  // namespace tflm_train
