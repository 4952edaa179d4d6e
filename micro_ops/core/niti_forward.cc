#include "micro_ops/core/niti_layers.h"
#include "micro_ops/core/niti_loops.h"

namespace tflm_train {
namespace {

template <class Sink>
void ConvForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                 const int32_t* bias, const Sink& sink) {
  const int32_t row_size = ConvRowSize(shape);
  for (int32_t o = 0; o < shape.out_channels; ++o) {
    ConvForwardChannel(shape, input, weights + o * row_size, BiasOf(bias, o), o, sink);
  }
}

template <class Sink>
void DenseForward(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                  const int32_t* bias, const Sink& sink) {
  for (int32_t o = 0; o < shape.outputs; ++o) {
    sink(o, BiasOf(bias, o) + DenseDot(input, weights + o * shape.inputs, shape.inputs));
  }
}

}  // namespace

void NitiConvForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                     const int32_t* bias, const Requantize& requantize, int8_t* output) {
  ConvForward(shape, input, weights, bias, RequantizeSink{requantize, output});
}

void NitiConvAccumulate(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                        const int32_t* bias, int32_t* output) {
  ConvForward(shape, input, weights, bias, AccumulatorSink{output});
}

void NitiDepthwiseForward(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                          const int32_t* bias, const Requantize& requantize, int8_t* output) {
  DepthwiseForward(shape, input, weights, bias, RequantizeSink{requantize, output});
}

void NitiDepthwiseAccumulate(const ConvShape& shape, const int8_t* input, const int8_t* weights,
                             const int32_t* bias, int32_t* output) {
  DepthwiseForward(shape, input, weights, bias, AccumulatorSink{output});
}

void NitiDenseForward(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                      const int32_t* bias, const Requantize& requantize, int8_t* output) {
  DenseForward(shape, input, weights, bias, RequantizeSink{requantize, output});
}

void NitiDenseAccumulate(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                         const int32_t* bias, int32_t* output) {
  DenseForward(shape, input, weights, bias, AccumulatorSink{output});
}

void NitiMaxPoolForward(const PoolShape& s, const int8_t* input, int8_t* output, uint8_t* argmax) {
  for (int32_t oy = 0; oy < s.out_height; ++oy) {
    const int32_t top = oy * s.stride_height - s.pad_top;
    const Span ys = ClipSpan(top, s.filter_height, s.in_height);
    for (int32_t ox = 0; ox < s.out_width; ++ox) {
      const int32_t left = ox * s.stride_width - s.pad_left;
      const Span xs = ClipSpan(left, s.filter_width, s.in_width);
      for (int32_t c = 0; c < s.channels; ++c) {
        int32_t best = -129, place = 0;
        for (int32_t ky = ys.begin; ky < ys.end; ++ky) {
          for (int32_t kx = xs.begin; kx < xs.end; ++kx) {
            const int32_t v = input[((top + ky) * s.in_width + left + kx) * s.channels + c];
            if (v > best) {
              best = v;
              place = ky * s.filter_width + kx;
            }
          }
        }
        const int32_t index = (oy * s.out_width + ox) * s.channels + c;
        output[index] = static_cast<int8_t>(best);
        if (argmax != nullptr) argmax[index] = static_cast<uint8_t>(place);
      }
    }
  }
}

int32_t NitiDynamicShift(const int32_t* values, int32_t size, int32_t bits) {
  uint32_t largest = 0;
  for (int32_t i = 0; i < size; ++i) {
    const uint32_t m = Magnitude(values[i]);
    if (m > largest) largest = m;
  }
  const int32_t shift = BitLength(largest) - bits;
  return shift > 0 ? shift : 0;
}

void NitiRequantizeTensor(const int32_t* values, int32_t size, const Requantize& requantize,
                          int8_t* output) {
  for (int32_t i = 0; i < size; ++i) output[i] = RequantizeValue(requantize, values[i], i);
}

}  // namespace tflm_train
