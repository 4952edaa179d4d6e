// Custom options: little-endian int32 after one another, a version first. Read byte by byte: a
// flatbuffer does not align them, and a Cortex-M0+ faults on an unaligned word.
// docs/priot_format.md and docs/tflm.md list the fields.
#ifndef TFLM_TRAIN_MICRO_OPS_TFLM_OP_OPTIONS_H_
#define TFLM_TRAIN_MICRO_OPS_TFLM_OP_OPTIONS_H_

#include <cstddef>
#include <cstdint>

namespace tflm_train {

inline int32_t ReadWord(const char* bytes) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    word |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  }
  return static_cast<int32_t>(word);
}

// A layer that sees its weights through scores.
struct MaskedOptions {
  int32_t version;  // 1, or 2 with the last two fields
  int32_t shift;
  int32_t rounding;
  int32_t threshold;
  int32_t storage;
  int32_t activation;
  int32_t stride_height, stride_width, pad_top, pad_left;
  int32_t seed, layer;  // of stochastic rounding
};

struct GradientOptions {
  int32_t version;  // 1
  int32_t storage;
  int32_t threshold;
  int32_t shift;  // of the error below
  int32_t rounding;
  int32_t masked;       // the error passes masked weights; 0: all of them
  int32_t relu_below;   // the input is a ReLU's output: no error where it is not above 0
  int32_t update_bits;  // usual bit length of an update before its shift
  int32_t mu;           // bit length of an update after it
  int32_t update_rounding;
  int32_t stride_height, stride_width, pad_top, pad_left;
  int32_t seed, layer;
};

struct PoolOptions {
  int32_t version;  // 1
  int32_t filter_height, filter_width;
  int32_t stride_height, stride_width;
  int32_t pad_top, pad_left;
};

struct CrossEntropyOptions {
  int32_t version;   // 1
  int32_t exponent;  // of the logits: real = code * 2^exponent
};

// Fills `options` (all fields int32) from `length` bytes; missing trailing fields become 0. False
// for bytes that are no words or too many.
template <class Options>
bool ReadOptions(const char* bytes, size_t length, Options* options) {
  int32_t* words = reinterpret_cast<int32_t*>(options);
  if (bytes == nullptr || length % 4 != 0 || length == 0 || length > sizeof(Options)) return false;
  for (size_t i = 0; i < sizeof(Options) / 4; ++i) {
    words[i] = 4 * i < length ? ReadWord(bytes + 4 * i) : 0;
  }
  return true;
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TFLM_OP_OPTIONS_H_
