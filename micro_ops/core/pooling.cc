#include "micro_ops/core/pooling.h"

#include "micro_ops/core/fixed_point.h"
#include "micro_ops/core/window.h"

namespace tflm_train {
namespace {

// Calls pool(first, rows, columns, output) for each window; `first` points at its top left pixel
// inside the image.
template <typename Pool>
void ForEachWindow(const PoolParams& p, const int8_t* input, int8_t* output, Pool pool) {
  for (int32_t oy = 0; oy < p.output_height; ++oy) {
    const Window rows =
        MakeWindow(oy * p.stride_height - p.pad_top, 1, p.filter_height, p.input_height);
    for (int32_t ox = 0; ox < p.output_width; ++ox) {
      const Window columns =
          MakeWindow(ox * p.stride_width - p.pad_left, 1, p.filter_width, p.input_width);
      const int32_t y = rows.origin + rows.begin, x = columns.origin + columns.begin;
      pool(input + (y * p.input_width + x) * p.depth, rows.end - rows.begin,
           columns.end - columns.begin, output);
      output += p.depth;
    }
  }
}

}  // namespace

void AveragePool2DInt8(const PoolParams& p, const int8_t* input, int8_t* output) {
  ForEachWindow(p, input, output,
                [&p](const int8_t* first, int32_t rows, int32_t columns, int8_t* out) {
                  const int32_t count = rows * columns;
                  for (int32_t c = 0; c < p.depth; ++c) {
                    int32_t acc = 0;
                    for (int32_t y = 0; y < rows; ++y) {
                      const int8_t* pixel = first + y * p.input_width * p.depth + c;
                      for (int32_t x = 0; x < columns; ++x, pixel += p.depth) acc += *pixel;
                    }
                    acc = (acc > 0 ? acc + count / 2 : acc - count / 2) / count;
                    out[c] = static_cast<int8_t>(Clamp(acc, p.activation_min, p.activation_max));
                  }
                });
}

void MaxPool2DInt8(const PoolParams& p, const int8_t* input, int8_t* output) {
  ForEachWindow(p, input, output,
                [&p](const int8_t* first, int32_t rows, int32_t columns, int8_t* out) {
                  for (int32_t c = 0; c < p.depth; ++c) out[c] = INT8_MIN;
                  for (int32_t y = 0; y < rows; ++y) {
                    const int8_t* pixel = first + y * p.input_width * p.depth;
                    for (int32_t x = 0; x < columns; ++x, pixel += p.depth) {
                      for (int32_t c = 0; c < p.depth; ++c) {
                        if (pixel[c] > out[c]) out[c] = pixel[c];
                      }
                    }
                  }
                  for (int32_t c = 0; c < p.depth; ++c) {
                    out[c] = static_cast<int8_t>(Clamp(out[c], p.activation_min, p.activation_max));
                  }
                });
}

}  // namespace tflm_train
