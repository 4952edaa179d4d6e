// Damaged models: each is refused with a ModelError or runs; anything else is found by a sanitiser.
#include "micro_ops/core/counter_rng.h"
#include "micro_ops/host/engine.h"
#include "tests/core/golden.h"

namespace tflm_train {
namespace {

constexpr int64_t kMostElements = 1 << 16;
constexpr int32_t kDamagesPerModel = 400;

// Runs the model on one sample of sevens; 1 when it was refused.
int32_t Survive(const std::vector<uint8_t>& model, const std::string& simd) {
  try {
    Engine engine(model.data(), model.size(), simd, 1, false);
    const Model& m = engine.model();
    std::vector<std::vector<int8_t>> buffers;
    std::vector<Feed> feeds;
    std::vector<Fetch> fetches;
    for (int32_t t : engine.Activations()) {
      if (m.tensors[t].elements > kMostElements) return 0;
    }
    for (int32_t t : m.inputs) {
      buffers.emplace_back(m.tensors[t].bytes(), int8_t{7});
      feeds.push_back({t, buffers.back().data()});
    }
    for (int32_t t : m.outputs) {
      buffers.emplace_back(m.tensors[t].bytes());
      fetches.push_back({t, buffers.back().data()});
    }
    engine.Run(0, engine.operators(), feeds, fetches, 1);
  } catch (const ModelError&) {
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tflm_train

// Arguments: seed and damages per model, for longer runs.
int main(int argc, char** argv) {
  using namespace tflm_train;  // NOLINT
  const uint32_t seed = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 1;
  const int32_t damages = argc > 2 ? std::atoi(argv[2]) : kDamagesPerModel;
  int32_t refused = 0, tried = 0;
  uint32_t number = 0;
  const auto random = [&] { return RngWord(RngMix(seed), number++); };
  for (const GoldenCase& c : ReadGolden()) {
    for (size_t size = 0; size < c.model.size(); size += 1 + c.model.size() / 64) {
      refused += Survive({c.model.begin(), c.model.begin() + static_cast<ptrdiff_t>(size)},
                         SimdLevels().front());
      ++tried;
    }
    for (int32_t i = 0; i < damages; ++i) {
      std::vector<uint8_t> model = c.model;
      for (uint32_t n = 1 + random() % 3; n > 0; --n) {
        const uint32_t word = random();
        model[random() % model.size()] =
            word & 1 ? static_cast<uint8_t>(word >> 8) : static_cast<uint8_t>(word & 2 ? 255 : 0);
      }
      refused += Survive(model, i % 2 ? SimdLevels().front() : "portable");
      ++tried;
    }
  }
  std::printf("%d damaged models, %d refused\n", tried, refused);
  TFLM_TRAIN_CHECK(refused > tried / 10);
  return 0;
}
