#include "micro_ops/host/priot_spec.h"

#include <stdexcept>

namespace tflm_train {

void PriotNeed(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument(message);
}

namespace {

ConvShape ConvFrom(const std::vector<int32_t>& v) {
  PriotNeed(v.size() == 12, "Expected 12 sizes of a convolution, got " + std::to_string(v.size()));
  return {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]};
}

PoolShape PoolFrom(const std::vector<int32_t>& v) {
  PriotNeed(v.size() == 11, "Expected 11 sizes of a pool, got " + std::to_string(v.size()));
  return {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10]};
}

// Every window must start inside the padded input and touch the input itself.
void CheckWindows(int32_t in, int32_t out, int32_t kernel, int32_t stride, int32_t pad) {
  const bool ok = in > 0 && out > 0 && kernel > 0 && stride > 0 && pad >= 0 && pad < kernel &&
                  (out - 1) * static_cast<int64_t>(stride) - pad < in && in < 32768 && kernel < 256;
  PriotNeed(ok, "Expected windows that touch their input, got input " + std::to_string(in) +
                    ", output " + std::to_string(out) + ", kernel " + std::to_string(kernel) +
                    ", stride " + std::to_string(stride) + ", padding " + std::to_string(pad));
}

}  // namespace

PriotLayer MakePriotLayer(const PriotSpec& spec) {
  const auto& [kind, sizes, relu] = spec;
  PriotLayer layer;
  layer.relu = relu;
  if (kind == "dense") {
    PriotNeed(sizes.size() == 2 && sizes[0] > 0 && sizes[1] > 0, "Expected inputs and outputs");
    layer.kind = LayerKind::kDense;
    layer.dense = {sizes[0], sizes[1]};
    layer.in_size = layer.row_size = sizes[0];
    layer.out_size = layer.rows = sizes[1];
  } else if (kind == "conv" || kind == "depthwise") {
    const ConvShape s = ConvFrom(sizes);
    PriotNeed(s.in_channels > 0 && s.out_channels > 0, "Expected at least one channel");
    CheckWindows(s.in_height, s.out_height, s.kernel_height, s.stride_height, s.pad_top);
    CheckWindows(s.in_width, s.out_width, s.kernel_width, s.stride_width, s.pad_left);
    layer.conv = s;
    layer.in_size = s.in_height * s.in_width * s.in_channels;
    layer.out_size = s.out_height * s.out_width * s.out_channels;
    if (kind == "conv") {
      layer.kind = LayerKind::kConv;
      layer.rows = s.out_channels;
      layer.row_size = ConvRowSize(s);
    } else {
      PriotNeed(s.out_channels % s.in_channels == 0, "Expected a whole depth multiplier");
      layer.kind = LayerKind::kDepthwise;
      layer.rows = 1;
      layer.row_size = DepthwiseWeightSize(s);
    }
  } else if (kind == "max_pool") {
    const PoolShape s = PoolFrom(sizes);
    CheckWindows(s.in_height, s.out_height, s.filter_height, s.stride_height, s.pad_top);
    CheckWindows(s.in_width, s.out_width, s.filter_width, s.stride_width, s.pad_left);
    PriotNeed(s.channels > 0 && s.filter_height * s.filter_width <= 256,
              "Expected pool windows of at most 256 positions");
    PriotNeed(!relu, "Expected the ReLU on the layer before the pool");
    layer.kind = LayerKind::kMaxPool;
    layer.pool = s;
    layer.in_size = s.in_height * s.in_width * s.channels;
    layer.out_size = s.out_height * s.out_width * s.channels;
  } else {
    PriotNeed(false, "Expected a layer kind conv, depthwise, dense or max_pool, got " + kind);
  }
  return layer;
}

}  // namespace tflm_train
