// Trains an ordinary .tflite by forward passes alone and prints a line per step, which the host
// trainer must reproduce. train_case.h is written by the test.
#include <new>

#include "console.h"
#include "micro_ops/tflm/zo_trainer.h"
#include "micro_ops/trainer/crc32.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include "train_case.h"

using namespace tflm_train;  // NOLINT: a test program

namespace {

constexpr int32_t kMostParts = 4 * kMaxTrainable + 1;
alignas(16) uint8_t arena[kArenaBytes];
alignas(16) uint8_t memory[kMemoryBytes];
// Not on the stack, whose depth is measured; no destructor to register.
alignas(ZoTrainer) uint8_t place[sizeof(ZoTrainer)];

void PutStack() {
#ifdef TFLM_TRAIN_BOARD
  const int64_t stack[1] = {BoardStackUsed()};
  PutFields("stack", stack, 1);
#endif
}

uint32_t WeightsCrc(RamModel& model) {
  uint32_t crc = 0;
  for (int32_t i = 0; i < model.list().count; ++i) {
    const TrainableTensor& t = model.list().tensors[i];
    crc = Crc32(model.weights(i), t.size * (t.is_bias ? 4u : 1u), crc);
  }
  return crc;
}

int Run() {
  tflite::MicroMutableOpResolver<8> resolver;
  resolver.AddFullyConnected();
#ifdef TFLM_TRAIN_REAL_TFLM
  resolver.AddConv2D();
  resolver.AddReshape();
#endif
  const QSchedulerConfig schedule = {kLevels, kLevelCount, 1, 0, false};
  ZoTrainerOptions options;
  kSetOptions(&options);
  if (kLevelCount > 0) options.scheduler = &schedule;
  ZoTrainer& trainer =
      *new (place) ZoTrainer(tflite::GetModel(kModel), resolver, arena, kArenaBytes, options);
  const size_t needed = trainer.MemoryBytes();
  const TrainStatus begun = trainer.Begin(memory, kMemoryLess ? needed - 1 : sizeof(memory));
  const int64_t start[4] = {static_cast<int64_t>(begun), static_cast<int64_t>(needed),
                            trainer.model().stale(), 0};
  PutFields("begin", start, 4);
  if (begun != TrainStatus::kOk) {
    PutText(TrainStatusText(begun));
    PutText("\n");
    return 0;
  }
  PutStack();  // so far of AllocateTensors and the canary
  const int64_t used[1] = {static_cast<int64_t>(trainer.model().interpreter()->arena_used_bytes())};
  PutFields("arena", used, 1);
  ArraySamples samples = {&kSamples[0][0], sizeof(kSamples[0]), kLabels, nullptr};
  for (int32_t i = 0; i < kSteps; ++i) {
    int32_t order[kBatch];
    for (int32_t k = 0; k < kBatch; ++k) order[k] = (i * kBatch + k) % kSampleCount;
    samples.order = order;
    ZoResult result;
    const int32_t q = trainer.q();
    const TrainStatus status = trainer.Step(samples.Source(), kBatch, &result);
    const int64_t line[6] = {static_cast<int64_t>(status),
                             q,
                             result.base,
                             Crc32(result.coefficients, 4u * static_cast<uint32_t>(q)),
                             WeightsCrc(trainer.model()),
                             result.saturated};
    PutFields("step", line, 6);
    if (i % 10 == 9) {
      samples.order = nullptr;
      int64_t row[3] = {0, 0, 0};
      int32_t correct = 0;
      trainer.Evaluate(samples.Source(), kSampleCount, &row[0], &correct);
      row[1] = correct;
      row[2] = trainer.EndEpoch(row[0]);
      PutFields("epoch", row, 3);
    }
  }
  PutStack();
  CheckpointPart parts[kMostParts];
  const int64_t count[1] = {trainer.Parts(parts, kMostParts)};
  PutFields("parts", count, 1);
  return 0;
}

}  // namespace

int main() {
  const int code = Run();
  PutText(code == 0 ? "done\n" : "failed\n");
  return code;
}
