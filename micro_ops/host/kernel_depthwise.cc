// DEPTHWISE_CONV_2D: channels side by side, taps by pointer.
#include "micro_ops/host/conv_setup.h"

namespace tflm_train {
namespace {

class DepthwiseKernel : public Kernel {
 public:
  explicit DepthwiseKernel(const OperatorView& view) : setup_(view, 3), simd_(view.simd()) {
    const ConvParams& p = setup_.params;
    view.Require(p.output_depth % p.input_depth == 0 && view.Input(1).shape[0] == 1,
                 "output channels that are a multiple of the input's: " + view.InputName(1));
    taps_ = p.filter_height * p.filter_width;
    if (simd_ != nullptr && setup_.constant_filter && p.output_depth == p.input_depth &&
        !view.Input(0).constant) {
      filter_data_ = view.Constant<int8_t>(1, TensorType::kInt8);
      packed_.Resize(p.output_depth, taps_, simd_->depthwise_swizzled);
      setup_.SetPacked(&packed_.scales);
      zeros_.assign(static_cast<size_t>(p.input_depth) + 64, static_cast<int8_t>(-p.input_offset));
      Repack();
    }
  }

  void Repack() override {
    if (filter_data_ != nullptr) {
      packed_.Pack(filter_data_, setup_.bias, setup_.params.input_offset);
    }
  }

  size_t scratch_bytes() const override {
    return filter_data_
               ? sizeof(int8_t*) * static_cast<size_t>(taps_ + 1) * setup_.params.output_width
               : 0;
  }

  void Run(const Frame& frame) const override {
    for (int32_t s = 0; s < frame.samples; ++s) {
      for (int32_t i = 0; i < setup_.images; ++i) {
        const int8_t* in = setup_.input.At(frame, s) + i * setup_.input_size();
        int8_t* out = setup_.output.At(frame, s) + i * setup_.output_size();
        if (filter_data_ == nullptr) {
          DepthwiseConv2DInt8(setup_.params, in, setup_.filter.At(frame, s), setup_.bias, out);
        } else {
          RunImage(reinterpret_cast<const int8_t**>(frame.scratch), in, out);
        }
      }
    }
  }

 private:
  void RunImage(const int8_t** taps, const int8_t* in, int8_t* out) const {
    const ConvParams& p = setup_.params;
    for (int32_t oy = 0; oy < p.output_height; ++oy) {
      const int8_t** tap = taps;
      for (int32_t ox = 0; ox < p.output_width; ++ox) {
        const int32_t left = ox * p.stride_width - p.pad_left;
        for (int32_t fy = 0; fy < p.filter_height; ++fy) {
          const int32_t y = oy * p.stride_height - p.pad_top + fy * p.dilation_height;
          const bool inside = y >= 0 && y < p.input_height;
          for (int32_t fx = 0; fx < p.filter_width; ++fx) {
            const int32_t x = left + fx * p.dilation_width;
            *tap++ = inside && x >= 0 && x < p.input_width
                         ? in + (y * p.input_width + x) * p.input_depth
                         : zeros_.data();
          }
        }
      }
      simd_->depthwise(packed_, taps, p.output_width, out);
      out += p.output_width * p.output_depth;
    }
  }

  ConvSetup setup_;
  const SimdKernels* simd_;
  int32_t taps_ = 0;
  const int8_t* filter_data_ = nullptr;  // set when weights are packed
  PackedDepthwise packed_;
  std::vector<int8_t> zeros_;  // a pixel of zero points, for taps outside the image
};

}  // namespace

std::unique_ptr<Kernel> MakeDepthwiseKernel(const OperatorView& view) {
  return std::make_unique<DepthwiseKernel>(view);
}

}  // namespace tflm_train
