// Vector twins of the hot kernels, chosen at run time. Each gives the bits of micro_ops/core, which
// is what runs where no twin exists ("portable").
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_SIMD_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_SIMD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "micro_ops/core/elementwise.h"
#include "micro_ops/core/zo_update.h"
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
  // The same without requantisation: int32 sums with the folded bias, rows `pitch` apart.
  void (*gemm_sums)(const PackedGemm& packed, const void* rows_in, int32_t rows, int32_t pitch,
                    int32_t* out);

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

  // Zeroth-order steps. z[j] = +-1 for j < size, up to 31 bytes more behind; micro_ops/core/
  // zo_perturb.h says which.
  void (*expand_signs)(uint32_t key, uint32_t first_block, uint32_t size, int8_t* z);
  // out[sample * columns + c] = sum of z[c * depth + i] * x[sample * depth_padded + i]; x is
  // unsigned and 0 behind depth, depth_padded a multiple of 32, z readable 31 bytes behind its end.
  void (*sign_sums)(const uint8_t* x, int32_t samples, int32_t depth, int32_t depth_padded,
                    const int8_t* z, int32_t columns, int32_t* out);
  // Requantises rows of RoundUp(columns, 16) sums to rows of `columns` bytes.
  void (*requantize)(const PackedScales& scales, int32_t columns, int32_t rows, const int32_t* sums,
                     int8_t* out);
  // w[j] += delta * z_j, as ZoPerturbInt8.
  void (*perturb)(int8_t* w, uint32_t size, uint32_t key, uint32_t first_block, int32_t delta);
  // ZoUpdateInt8 for unit 1.
  uint32_t (*update)(const ZoUpdateParams& params, int8_t* w, int32_t* momentum, uint32_t size);
};

// Names this machine can run, the fastest first; the last is "portable".
std::vector<std::string> SimdLevels();

// The kernels of a level; nullptr for "portable". Throws std::invalid_argument for a name this
// machine cannot run.
const SimdKernels* FindSimd(const std::string& name);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_SIMD_H_
