// Reads golden_kernels.bin; generate_golden.py says how it is laid out.
#ifndef TFLM_TRAIN_TESTS_CORE_GOLDEN_H_
#define TFLM_TRAIN_TESTS_CORE_GOLDEN_H_

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "micro_ops/host/simd.h"
#include "tests/core/check.h"

namespace tflm_train {

struct GoldenCase {
  int32_t samples;
  std::vector<uint8_t> model;
  std::vector<std::vector<int8_t>> inputs;
  std::vector<int8_t> output;
};

// The levels of this machine and the emulated one where it runs.
inline std::vector<std::string> TestedLevels() {
  std::vector<std::string> levels = SimdLevels();
  if (levels.size() > 1 && levels[levels.size() - 2] == "avx2") {
    levels.push_back("avx512vnni-emulated");
  }
  return levels;
}

inline std::vector<GoldenCase> ReadGolden() {
  std::ifstream file(TFLM_TRAIN_GOLDEN, std::ios::binary);
  const std::vector<char> data((std::istreambuf_iterator<char>(file)),
                               std::istreambuf_iterator<char>());
  TFLM_TRAIN_CHECK(!data.empty());
  size_t position = 0;
  const auto number = [&] {
    int32_t value;
    std::memcpy(&value, data.data() + position, sizeof(value));
    position += sizeof(value);
    return value;
  };
  const auto block = [&] {
    const size_t size = static_cast<size_t>(number());
    const char* begin = data.data() + position;
    position += size;
    return std::vector<int8_t>(begin, begin + size);
  };
  std::vector<GoldenCase> cases;
  while (position < data.size()) {
    GoldenCase c;
    const int32_t inputs = number();
    c.samples = number();
    const std::vector<int8_t> model = block();
    c.model.assign(model.begin(), model.end());
    for (int32_t i = 0; i < inputs; ++i) c.inputs.push_back(block());
    c.output = block();
    cases.push_back(c);
  }
  return cases;
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_TESTS_CORE_GOLDEN_H_
