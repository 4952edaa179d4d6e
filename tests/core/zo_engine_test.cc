// Zeroth-order steps of every golden dense layer: the fast path of each instruction set against the
// portable loop, and weights that come back.
#include "micro_ops/host/zo_engine.h"

#include "tests/core/golden.h"

namespace tflm_train {
namespace {

constexpr int32_t kDirections = 5;

struct Result {
  ZoLosses losses;
  std::vector<int8_t> weights;
  ZoTrace trace;
};

Result RunCase(const GoldenCase& c, const std::string& simd, ZoEstimator estimator) {
  Engine engine(c.model.data(), c.model.size(), simd, 1, false);
  const int32_t weights = engine.model().operators[0].inputs[1];
  uint8_t* data = engine.MutableConstant(weights);
  const size_t size = engine.model().tensors[weights].bytes();
  for (size_t i = 0; i < size; ++i) {
    const int8_t w = static_cast<int8_t>(data[i]);
    data[i] = static_cast<uint8_t>(w > 120 ? 120 : w < -120 ? -120 : w);
  }
  engine.WriteConstant(weights, std::vector<uint8_t>(data, data + size).data());
  const int32_t logits = engine.model().outputs[0];
  ZoEngine zo(&engine, {0, logits, ZoLoss::kSquaredError, 1, {{weights, 1, 120}}, 7, 2, estimator});
  const ZoBatch batch = {
      {{engine.model().inputs[0], c.inputs[0].data()}}, nullptr, c.output.data(), c.samples};
  Result result;
  zo.CheckBatch(batch);
  zo.Losses(batch, 3, kDirections, &result.losses);
  std::vector<int32_t> momentum(size, 0), indices;
  for (int32_t i = 0; i < 4 * c.samples; ++i) indices.push_back(i % c.samples);
  const std::vector<uint32_t> rates(indices.size(), 1 << 16);
  ZoTensorState state;
  state.momentum = momentum.data();
  zo.Train(batch, indices.data(), static_cast<int64_t>(indices.size()), 10,
           {kDirections, 3, true, rates.data(), 230}, {state}, &result.trace);
  const int8_t* end = reinterpret_cast<const int8_t*>(engine.Constant(weights));
  result.weights.assign(end, end + size);
  return result;
}

}  // namespace
}  // namespace tflm_train

int main() {
  using namespace tflm_train;  // NOLINT
  int32_t compared = 0;
  for (const GoldenCase& c : ReadGolden()) {
    if (ReadModel(c.model.data(), c.model.size()).operators[0].code != Builtin::kFullyConnected) {
      continue;
    }
    for (ZoEstimator estimator :
         {ZoEstimator::kOneSided, ZoEstimator::kLeaveOneOut, ZoEstimator::kTwoSided}) {
      const Result expected = RunCase(c, "portable", estimator);
      for (const std::string& simd : TestedLevels()) {
        const Result got = RunCase(c, simd, estimator);
        TFLM_TRAIN_CHECK(got.losses.base == expected.losses.base);
        TFLM_TRAIN_CHECK(got.losses.plus == expected.losses.plus);
        TFLM_TRAIN_CHECK(got.losses.minus == expected.losses.minus);
        TFLM_TRAIN_CHECK(got.trace.coefficients == expected.trace.coefficients);
        TFLM_TRAIN_CHECK(got.weights == expected.weights);
        ++compared;
      }
    }
  }
  TFLM_TRAIN_CHECK(compared > 0);
  std::printf("%d zeroth-order runs\n", compared);
  return 0;
}
