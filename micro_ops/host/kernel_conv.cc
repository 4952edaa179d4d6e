// CONV_2D: rows gathered from the image, then a matrix product with packed weights.
#include <cstring>

#include "micro_ops/host/conv_setup.h"

namespace tflm_train {
namespace {

class ConvKernel : public Kernel {
 public:
  explicit ConvKernel(const OperatorView& view) : setup_(view, 0), simd_(view.simd()) {
    const ConvParams& p = setup_.params;
    view.Require(
        p.input_depth % p.filter_depth == 0,
        "a filter depth that divides " + std::to_string(p.input_depth) + ": " + view.InputName(1));
    const int32_t groups = p.input_depth / p.filter_depth;
    view.Require(p.output_depth % groups == 0, "output channels in " + std::to_string(groups) +
                                                   " equal groups: " + view.InputName(1));
    if (simd_ != nullptr && setup_.constant_filter && groups == 1 && !view.Input(0).constant) {
      filter_data_ = view.Constant<int8_t>(1, TensorType::kInt8);
      packed_.Resize(p.output_depth, p.filter_height * p.filter_width * p.filter_depth,
                     simd_->depth_step);
      setup_.SetPacked(&packed_.scales);
      Repack();
    }
  }

  void Repack() override {
    if (filter_data_ != nullptr) {
      packed_.Pack(filter_data_, setup_.bias, setup_.params.input_offset - simd_->input_bias);
    }
  }

  size_t scratch_bytes() const override {
    if (filter_data_ == nullptr) return 0;
    return rows_bytes() + (pointwise() ? 0 : image_bytes());
  }

  void Run(const Frame& frame) const override {
    if (filter_data_ == nullptr) {
      for (int32_t s = 0; s < frame.samples; ++s) RunPortable(frame, s);
    } else if (pointwise()) {
      RunPointwise(frame);
    } else {
      for (int32_t s = 0; s < frame.samples; ++s) {
        for (int32_t i = 0; i < setup_.images; ++i) {
          RunImage(frame.scratch, setup_.input.At(frame, s) + i * setup_.input_size(),
                   setup_.output.At(frame, s) + i * setup_.output_size());
        }
      }
    }
  }

 private:
  int32_t row_bytes() const { return packed_.depth_padded * simd_->input_bytes; }
  size_t rows_bytes() const {
    return static_cast<size_t>(RowsAtATime(row_bytes())) * row_bytes() + 64;
  }
  // One input pixel per output pixel: rows are where they are.
  bool pointwise() const {
    const ConvParams& p = setup_.params;
    return p.filter_height == 1 && p.filter_width == 1 && p.stride_height == 1 &&
           p.stride_width == 1;
  }
  // The converted image with its border.
  int32_t padded_height() const {
    const ConvParams& p = setup_.params;
    return std::max(
        (p.output_height - 1) * p.stride_height + (p.filter_height - 1) * p.dilation_height + 1,
        p.pad_top + p.input_height);
  }
  int32_t padded_width() const {
    const ConvParams& p = setup_.params;
    return std::max(
        (p.output_width - 1) * p.stride_width + (p.filter_width - 1) * p.dilation_width + 1,
        p.pad_left + p.input_width);
  }
  size_t image_bytes() const {
    return static_cast<size_t>(padded_height()) * padded_width() * setup_.params.input_depth *
               simd_->input_bytes +
           128;
  }

  void RunPortable(const Frame& frame, int32_t s) const {
    for (int32_t i = 0; i < setup_.images; ++i) {
      Conv2DInt8(setup_.params, setup_.input.At(frame, s) + i * setup_.input_size(),
                 setup_.filter.At(frame, s), setup_.bias,
                 setup_.output.At(frame, s) + i * setup_.output_size());
    }
  }

  void RunPointwise(const Frame& frame) const {
    const ConvParams& p = setup_.params;
    const int32_t rows = frame.samples * setup_.images * p.output_height * p.output_width;
    const int32_t block = RowsAtATime(row_bytes());
    const int8_t* in = setup_.input.At(frame, 0);
    int8_t* out = setup_.output.At(frame, 0);
    const bool dense = packed_.depth_padded == packed_.depth;
    for (int32_t row = 0; row < rows; row += block) {
      const int32_t count = std::min(block, rows - row);
      if (dense) {
        simd_->convert(in, count * p.input_depth, frame.scratch);
      } else {
        for (int32_t r = 0; r < count; ++r) {
          simd_->convert(in + r * p.input_depth, p.input_depth, frame.scratch + r * row_bytes());
        }
      }
      in += static_cast<size_t>(count) * p.input_depth;
      simd_->gemm(packed_, frame.scratch, count, out);
      out += static_cast<size_t>(count) * p.output_depth;
    }
  }

  void PadImage(const int8_t* in, uint8_t* image) const {
    const ConvParams& p = setup_.params;
    const int32_t pixel = p.input_depth * simd_->input_bytes, width = padded_width();
    const int32_t right = width - p.pad_left - p.input_width;
    const int8_t zero = static_cast<int8_t>(-p.input_offset);
    uint8_t* at = image;
    const auto border = [&](int32_t pixels) {
      FillConverted(zero, pixels * p.input_depth, at);
      at += pixels * pixel;
    };
    border(p.pad_top * width);
    for (int32_t y = 0; y < p.input_height; ++y) {
      border(p.pad_left);
      simd_->convert(in + y * p.input_width * p.input_depth, p.input_width * p.input_depth, at);
      at += p.input_width * pixel;
      border(right);
    }
    border((padded_height() - p.pad_top - p.input_height) * width);
  }

  void FillConverted(int8_t value, int32_t n, uint8_t* out) const {
    if (simd_->input_bytes == 1) {
      std::memset(out, static_cast<uint8_t>(value + simd_->input_bias), static_cast<size_t>(n));
    } else {
      std::fill_n(reinterpret_cast<int16_t*>(out), n, value);
    }
  }

  void RunImage(uint8_t* scratch, const int8_t* in, int8_t* out) const {
    const ConvParams& p = setup_.params;
    uint8_t* image = scratch + RoundUp(static_cast<int32_t>(rows_bytes()), 64);
    PadImage(in, image);
    const int32_t block = RowsAtATime(row_bytes()), pixel = p.input_depth * simd_->input_bytes;
    const int32_t width = padded_width(), stride = row_bytes();
    int32_t count = 0;
    for (int32_t y = 0; y < p.output_height; ++y) {
      for (int32_t x = 0; x < p.output_width; ++x) {
        const uint8_t* first = image + (y * p.stride_height * width + x * p.stride_width) * pixel;
        GatherRow(first, width * pixel, pixel, scratch + count * stride);
        if (++count == block) {
          simd_->gemm(packed_, scratch, count, out);
          out += static_cast<size_t>(count) * p.output_depth;
          count = 0;
        }
      }
    }
    if (count > 0) simd_->gemm(packed_, scratch, count, out);
  }

  // Copies the pixels under one filter window to a row; up to 15 bytes more at its end.
  void GatherRow(const uint8_t* first, int32_t row_pitch, int32_t pixel, uint8_t* row) const {
    const ConvParams& p = setup_.params;
    const bool together = p.dilation_width == 1;
    const int32_t runs = together ? 1 : p.filter_width;
    const int32_t bytes = together ? p.filter_width * pixel : pixel;
    for (int32_t fy = 0; fy < p.filter_height; ++fy, first += p.dilation_height * row_pitch) {
      for (int32_t fx = 0; fx < runs; ++fx, row += bytes) {
        const uint8_t* from = first + fx * p.dilation_width * pixel;
        // Fixed-size copies, which need no call.
        for (int32_t i = 0; i < bytes; i += 16) std::memcpy(row + i, from + i, 16);
      }
    }
  }

  ConvSetup setup_;
  const SimdKernels* simd_;
  const int8_t* filter_data_ = nullptr;  // set when weights are packed
  PackedGemm packed_;
};

}  // namespace

std::unique_ptr<Kernel> MakeConvKernel(const OperatorView& view) {
  return std::make_unique<ConvKernel>(view);
}

}  // namespace tflm_train
