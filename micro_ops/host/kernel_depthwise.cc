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
        taps_ <= kMaxTaps && !view.Input(0).constant) {
      filter_data_ = view.Constant<int8_t>(1, TensorType::kInt8);
      packed_.Resize(p.output_depth, taps_, simd_->depthwise_swizzled);
      setup_.SetPacked(&packed_.scales);
      zeros_.assign(static_cast<size_t>(p.output_width) * p.stride_width * p.input_depth,
                    static_cast<int8_t>(-p.input_offset));
      FindInside();
      Repack();
    }
  }

  void Repack() override {
    if (filter_data_ != nullptr) {
      packed_.Pack(filter_data_, setup_.bias, setup_.params.input_offset);
    }
  }

  void Run(const Frame& frame) const override {
    for (int32_t s = 0; s < frame.samples; ++s) {
      for (int32_t i = 0; i < setup_.images; ++i) {
        const int8_t* in = setup_.input.At(frame, s) + i * setup_.input_size();
        int8_t* out = setup_.output.At(frame, s) + i * setup_.output_size();
        if (filter_data_ == nullptr) {
          DepthwiseConv2DInt8(setup_.params, in, setup_.filter.At(frame, s), setup_.bias, out);
        } else {
          RunImage(in, out);
        }
      }
    }
  }

 private:
  // Output columns whose taps all lie inside the image: one run of pixels.
  void RunImage(const int8_t* in, int8_t* out) const {
    const ConvParams& p = setup_.params;
    for (int32_t oy = 0; oy < p.output_height; ++oy) {
      RunPixels(in, oy, 0, first_inside_, 1, out);
      RunPixels(in, oy, first_inside_, last_inside_, last_inside_ - first_inside_, out);
      RunPixels(in, oy, last_inside_, p.output_width, 1, out);
      out += p.output_width * p.output_depth;
    }
  }

  // Pixels [begin, end) of an output row, `run` at a time.
  void RunPixels(const int8_t* in, int32_t oy, int32_t begin, int32_t end, int32_t run,
                 int8_t* out) const {
    const ConvParams& p = setup_.params;
    const int8_t* taps[kMaxTaps];
    for (int32_t ox = begin; ox < end; ox += run) {
      const int32_t top = oy * p.stride_height - p.pad_top;
      const int32_t left = ox * p.stride_width - p.pad_left;
      const int8_t** tap = taps;
      for (int32_t fy = 0; fy < p.filter_height; ++fy) {
        const int32_t y = top + fy * p.dilation_height;
        const bool inside = y >= 0 && y < p.input_height;
        for (int32_t fx = 0; fx < p.filter_width; ++fx) {
          const int32_t x = left + fx * p.dilation_width;
          *tap++ = inside && x >= 0 && x < p.input_width
                       ? in + (y * p.input_width + x) * p.input_depth
                       : zeros_.data();
        }
      }
      simd_->depthwise(packed_, taps, run, p.stride_width * p.input_depth,
                       out + ox * p.output_depth);
    }
  }

  // Finds the columns RunImage treats as inside; without any, all are borders.
  void FindInside() {
    const ConvParams& p = setup_.params;
    const int32_t reach = (p.filter_width - 1) * p.dilation_width;
    first_inside_ = std::min(p.output_width, (p.pad_left + p.stride_width - 1) / p.stride_width);
    last_inside_ = first_inside_;
    while (last_inside_ < p.output_width &&
           last_inside_ * p.stride_width - p.pad_left + reach < p.input_width) {
      ++last_inside_;
    }
  }

  static constexpr int32_t kMaxTaps = 128;

  ConvSetup setup_;
  const SimdKernels* simd_;
  int32_t taps_ = 0;
  const int8_t* filter_data_ = nullptr;  // set when weights are packed
  PackedDepthwise packed_;
  int32_t first_inside_ = 0, last_inside_ = 0;
  std::vector<int8_t> zeros_;  // a row of zero points, for taps outside the image
};

}  // namespace

std::unique_ptr<Kernel> MakeDepthwiseKernel(const OperatorView& view) {
  return std::make_unique<DepthwiseKernel>(view);
}

}  // namespace tflm_train
