// Trains the last layer by its exact gradient; prints weights' CRC and right answers per pass.
#include "console.h"
#include "micro_ops/tflm/exact_head_trainer.h"
#include "micro_ops/trainer/crc32.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include "train_case.h"

using namespace tflm_train;  // NOLINT: a test program

namespace {

alignas(16) uint8_t arena[kArenaBytes];
alignas(16) uint8_t memory[kMemoryBytes];

}  // namespace

int main() {
  tflite::MicroMutableOpResolver<5> resolver;
  resolver.AddFullyConnected();
#ifdef TFLM_TRAIN_REAL_TFLM
  resolver.AddConv2D();
  if constexpr (kMaxPool) resolver.AddMaxPool2D();
  resolver.AddReshape();
#endif
  ExactHeadOptions options;
  options.seed = 4;
  options.rate_q16 = kRateQ16;
  options.stale = StalePolicy::kReprepare;  // CMSIS-NN's build for speed on a Cortex-M55 needs it.
  ExactHeadTrainer trainer(tflite::GetModel(kModel), resolver, arena, kArenaBytes, options);
  const int64_t begun[1] = {static_cast<int64_t>(trainer.Begin(memory, kMemoryBytes))};
  PutFields("begin", begun, 1);
  if (begun[0] != 0) return 0;
  ArraySamples samples = {&kSamples[0][0], sizeof(kSamples[0]), kLabels, nullptr};
  for (int32_t i = 0; i < kPasses; ++i) {
    int32_t correct = 0;
    const TrainStatus status = trainer.Train(samples.Source(), kSampleCount, &correct);
    const uint32_t size = trainer.model().list().tensors[0].size;
    const int64_t line[4] = {static_cast<int64_t>(status), trainer.step(), correct,
                             Crc32(trainer.model().weights(0), size)};
    PutFields("pass", line, 4);
  }
  PutText("done\n");
  return 0;
}
