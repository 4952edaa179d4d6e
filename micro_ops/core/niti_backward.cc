#include "micro_ops/core/niti_layers.h"
#include "micro_ops/core/niti_loops.h"

namespace tflm_train {

void NitiConvBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                      const Requantize& requantize, int32_t* accumulators, int8_t* error_in) {
  ConvBackward(shape, error_out, weights, accumulators, RequantizeSink{requantize, error_in});
}

void NitiConvBackwardAccumulate(const ConvShape& shape, const int8_t* error_out,
                                const int8_t* weights, int32_t* accumulators, int32_t* error_in) {
  ConvBackward(shape, error_out, weights, accumulators, AccumulatorSink{error_in});
}

void NitiDepthwiseBackward(const ConvShape& shape, const int8_t* error_out, const int8_t* weights,
                           const Requantize& requantize, int8_t* error_in) {
  DepthwiseBackward(shape, error_out, weights, RequantizeSink{requantize, error_in});
}

void NitiDepthwiseBackwardAccumulate(const ConvShape& shape, const int8_t* error_out,
                                     const int8_t* weights, int32_t* error_in) {
  DepthwiseBackward(shape, error_out, weights, AccumulatorSink{error_in});
}

void NitiDenseBackward(const DenseShape& shape, const int8_t* error_out, const int8_t* weights,
                       const Requantize& requantize, int8_t* error_in) {
  DenseBackward(shape, error_out, weights, RequantizeSink{requantize, error_in});
}

void NitiDenseBackwardAccumulate(const DenseShape& shape, const int8_t* error_out,
                                 const int8_t* weights, int32_t* error_in) {
  DenseBackward(shape, error_out, weights, AccumulatorSink{error_in});
}

void NitiMaxPoolBackward(const PoolShape& s, const int8_t* error_out, const uint8_t* argmax,
                         int8_t* error_in) {
  const int32_t in_size = s.in_height * s.in_width * s.channels;
  for (int32_t i = 0; i < in_size; ++i) error_in[i] = 0;
  for (int32_t oy = 0; oy < s.out_height; ++oy) {
    for (int32_t ox = 0; ox < s.out_width; ++ox) {
      const int32_t base = (oy * s.out_width + ox) * s.channels;
      for (int32_t c = 0; c < s.channels; ++c) {
        const int32_t e = error_out[base + c];
        if (e == 0) continue;
        const int32_t place = argmax[base + c];
        const int32_t iy = oy * s.stride_height - s.pad_top + place / s.filter_width;
        const int32_t ix = ox * s.stride_width - s.pad_left + place % s.filter_width;
        int8_t* target = error_in + (iy * s.in_width + ix) * s.channels + c;
        *target = static_cast<int8_t>(Clamp(*target + e, -127, 127));
      }
    }
  }
}

void NitiReluBackward(const int8_t* output, int32_t size, int8_t* error) {
  for (int32_t i = 0; i < size; ++i) {
    error[i] = output[i] <= 0 ? static_cast<int8_t>(0) : error[i];
  }
}

}  // namespace tflm_train
