// Vector twins of the hot kernels, chosen at run time. Each gives the bits of micro_ops/core, which
// is what runs where no twin exists ("portable").
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_SIMD_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_SIMD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "micro_ops/core/elementwise.h"
#include "micro_ops/host/packed.h"

namespace tflm_train {

struct SimdKernels {
  const char* name;  // "avx2"

  // Matrix product. Inputs are converted rows of `depth_padded` elements of `input_bytes` bytes.
  int32_t depth_step;   // depth_padded is a multiple of it
  int32_t input_bytes;  // bytes of one converted element
  int32_t input_bias;   // what conversion adds to every element
  // Converts n values; may write up to 64 bytes behind the last.
  void (*convert)(const int8_t* x, int32_t n, void* out);
  // out[row][column] for `rows` rows of `columns`, requantised.
  void (*gemm)(const PackedGemm& packed, const void* rows_in, int32_t rows, int8_t* out);
  // The same without requantisation: int32 sums with the folded bias.
  void (*gemm_sums)(const PackedGemm& packed, const void* rows_in, int32_t rows, int32_t* out);

  // Whether depthwise panels hold channels in the order 0-3 8-11 4-7 12-15.
  bool depthwise_swizzled;
  // `pixels` output pixels side by side; tap t of the first reads the channels at taps[t], of the
  // next those `step` bytes further.
  void (*depthwise)(const PackedDepthwise& packed, const int8_t* const* taps, int32_t pixels,
                    int32_t step, int8_t* out);

  // out[i] = add(a[i], b[i]).
  void (*add)(const AddParams& params, int32_t n, const int8_t* a, const int8_t* b, int8_t* out);
  // sums[c] = x[c] + x[pitch + c] + ... over `rows` rows.
  void (*sum_rows)(const int8_t* x, int32_t rows, int32_t pitch, int32_t channels, int32_t* sums);
  // highest[i] = max(highest[i], x[i]).
  void (*max_row)(const int8_t* x, int32_t n, int8_t* highest);
};

// Names this machine can run, the fastest first; the last is "portable".
std::vector<std::string> SimdLevels();

// The kernels of a level; nullptr for "portable". Throws std::invalid_argument for a name this
// machine cannot run.
const SimdKernels* FindSimd(const std::string& name);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_SIMD_H_
