#include "micro_ops/host/simd.h"

#include <stdexcept>

#include "micro_ops/host/simd_levels.h"

namespace tflm_train {
namespace {

std::vector<const SimdKernels*> Available() {
  std::vector<const SimdKernels*> levels;
  for (const SimdKernels* level : {Avx512VnniKernels(), Avx2Kernels(), NeonKernels()}) {
    if (level != nullptr) levels.push_back(level);
  }
  return levels;
}

}  // namespace

std::vector<std::string> SimdLevels() {
  std::vector<std::string> names;
  for (const SimdKernels* level : Available()) names.push_back(level->name);
  names.push_back("portable");
  return names;
}

const SimdKernels* FindSimd(const std::string& name) {
  if (name == "portable") return nullptr;
  for (const SimdKernels* level : Available()) {
    if (name == level->name) return level;
  }
  const SimdKernels* emulated = EmulatedVnniKernels();
  if (emulated != nullptr && name == emulated->name) return emulated;
  std::string known;
  for (const std::string& level : SimdLevels()) known += (known.empty() ? "" : ", ") + level;
  throw std::invalid_argument("Expected one of " + known + " on this machine, got '" + name + "'");
}

}  // namespace tflm_train
