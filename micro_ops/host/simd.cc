#include "micro_ops/host/simd.h"

#include <stdexcept>

namespace tflm_train {

std::vector<std::string> SimdLevels() { return {"portable"}; }

const SimdKernels* FindSimd(const std::string& name) {
  if (name == "portable") return nullptr;
  std::string known;
  for (const std::string& level : SimdLevels()) known += (known.empty() ? "" : ", ") + level;
  throw std::invalid_argument("Expected one of " + known + " on this machine, got '" + name + "'");
}

}  // namespace tflm_train
