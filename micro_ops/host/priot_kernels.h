// The hot loops of the host trainer as a table of functions: a portable set over micro_ops/core and
// an AVX2 set with the same bits, chosen at run time.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_KERNELS_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_KERNELS_H_

#include <cstdint>
#include <vector>

#include "micro_ops/core/niti_layers.h"
#include "micro_ops/core/niti_update.h"

namespace tflm_train {

// Every buffer a kernel reads has this many bytes more than its contents, so that vector loads may
// run over the end. The bytes after an activation are zero.
constexpr int32_t kSlack = 64;

struct PlacedError {
  int32_t place;
  int32_t error;
};

// Nonzero errors of one output channel or position: begin .. end, room for one more behind.
struct ErrorList {
  std::vector<PlacedError> memory;
  PlacedError* begin = nullptr;
  PlacedError* end = nullptr;
};

// Scratch of one convolution, kept between the forward and the backward pass of a sample.
struct ConvWork {
  std::vector<int8_t> padded;   // Input with its zero border.
  std::vector<int8_t> columns;  // One row of patches per output position.
  std::vector<int8_t> packed;   // Weights in the order the product reads them.
  std::vector<int32_t> sums;    // Accumulators, of the padded input in the backward pass.
  std::vector<ErrorList> by_channel;
  bool packed_valid = false;
};

struct UpdateCounts {
  int64_t pruned = 0;     // Crossings below the threshold.
  int64_t restored = 0;   // Crossings back.
  int64_t at_limit = 0;   // Updated scores or weights that stand at the end of their range.
  int64_t saturated = 0;  // Steps cut to +-127.
  int64_t changed = 0;    // Steps that are not zero.
};

// One row of edges to update; `scores` null means that the weights themselves train.
struct EdgeRow {
  int8_t* weights;
  int8_t* scores;
  const uint8_t* scored;  // 0xff or 0 per edge; null when every edge has a score.
  int8_t* masked;         // weights with pruned edges as zeros, kept up to date.
  int32_t threshold;
  int32_t size;
  int32_t first_edge;
  UpdateParams params;
  UpdateCounts* counts;
};

// A null `requantize` asks for the accumulators instead of the int8 output.
struct PriotKernels {
  const char* name;
  void (*conv_forward)(const ConvShape&, ConvWork*, const int8_t* input, bool non_negative,
                       const int8_t* weights, const int32_t* bias, const Requantize* requantize,
                       int32_t* accumulators, int8_t* output);
  void (*dense_forward)(const DenseShape&, const int8_t* input, bool non_negative,
                        const int8_t* weights, const int32_t* bias, const Requantize* requantize,
                        int32_t* accumulators, int8_t* output);
  void (*max_pool_forward)(const PoolShape&, const int8_t* input, int8_t* output, uint8_t* argmax);
  void (*max_pool_backward)(const PoolShape&, const int8_t* error, const uint8_t* argmax,
                            int8_t* error_in);
  void (*conv_backward)(const ConvShape&, ConvWork*, const int8_t* error, const int8_t* weights,
                        const Requantize* requantize, int32_t* accumulators, int8_t* error_in);
  void (*dense_backward)(const DenseShape&, const int8_t* error, const int8_t* weights,
                         const Requantize* requantize, int32_t* accumulators, int8_t* error_in);
  // Called once per sample before the rows are asked for.
  void (*conv_gradient_begin)(const ConvShape&, ConvWork*, const int8_t* error);
  bool (*conv_gradient_row)(const ConvShape&, ConvWork*, const int8_t* input, const int8_t* error,
                            int32_t channel, int32_t* row);
  void (*requantize)(const int32_t* values, int32_t size, const Requantize&, int8_t* output);
  void (*update_row)(const EdgeRow&, const int32_t* gradient);
  // The row of a dense layer: gradient = error * input.
  void (*update_dense_row)(const EdgeRow&, int32_t error, const int8_t* input);
};

const PriotKernels& PortablePriotKernels();
// Null when the processor or the build has no AVX2.
const PriotKernels* Avx2PriotKernels();

// Edges [begin, end) of a row, one at a time; the vector set uses it for its tails.
void UpdateEdges(const EdgeRow& row, const int32_t* gradient, int32_t begin, int32_t end);
void UpdateDenseEdges(const EdgeRow& row, int32_t error, const int8_t* input, int32_t begin,
                      int32_t end);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_KERNELS_H_
