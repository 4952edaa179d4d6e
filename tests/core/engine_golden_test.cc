// The golden vectors in every instruction set, without Python: for sanitiser and cross builds.
#include "micro_ops/host/engine.h"
#include "tests/core/golden.h"

namespace tflm_train {
namespace {

void RunCase(const GoldenCase& c, const std::string& simd, int32_t threads) {
  Engine engine(c.model.data(), c.model.size(), simd, threads, false);
  std::vector<Feed> feeds;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    feeds.push_back({engine.model().inputs[i], c.inputs[i].data()});
  }
  std::vector<int8_t> output(c.output.size());
  engine.Run(0, engine.operators(), feeds, {{engine.model().outputs[0], output.data()}}, c.samples);
  TFLM_TRAIN_CHECK(output == c.output);
  // Weights written as they are change nothing.
  for (size_t t = 0; t < engine.model().tensors.size(); ++t) {
    const Tensor& tensor = engine.model().tensors[t];
    if (!tensor.constant || engine.model().operators[0].code == Builtin::kMean ||
        engine.model().operators[0].code == Builtin::kPad ||
        engine.model().operators[0].code == Builtin::kPadV2) {
      continue;
    }
    const int32_t index = static_cast<int32_t>(t);
    const std::vector<uint8_t> values(engine.Constant(index),
                                      engine.Constant(index) + tensor.bytes());
    engine.WriteConstant(index, values.data());
  }
  std::fill(output.begin(), output.end(), int8_t{0});
  engine.Run(0, engine.operators(), feeds, {{engine.model().outputs[0], output.data()}}, c.samples);
  TFLM_TRAIN_CHECK(output == c.output);
}

}  // namespace
}  // namespace tflm_train

int main() {
  const auto cases = tflm_train::ReadGolden();
  for (const auto& c : cases) {
    for (const std::string& simd : tflm_train::TestedLevels()) {
      tflm_train::RunCase(c, simd, 1);
      tflm_train::RunCase(c, simd, 2);
    }
  }
  std::printf("%zu golden cases\n", cases.size());
  return 0;
}
