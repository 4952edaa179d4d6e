// Runs a training graph over a script of samples and prints a line per step, which the host trainer
// must reproduce. The same source runs on the stand-in interpreter and on TFLM's own, on this
// machine and on emulated boards. train_case.h is written by the test.
#include "console.h"
#include "micro_ops/tflm/train_ops.h"
#include "micro_ops/tflm/train_session.h"
#include "micro_ops/trainer/crc32.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include "train_case.h"

#ifdef ODD_OPTIONS
#include "odd_options.h"
using TestResolver = OddOptionsResolver;
#else
using TestResolver = tflite::MicroMutableOpResolver<tflm_train::kTrainOpCount>;
#endif

using namespace tflm_train;  // NOLINT: a test program

namespace {

enum : int32_t { kReset = -2, kSave = -3, kLoad = -4 };  // In place of a label.
constexpr int32_t kMostParts = 16;

alignas(16) uint8_t arena[kArenaBytes];
alignas(8) uint8_t flash[2 * kSlotBytes];
uint8_t page[256];

bool Erase(void*, uint32_t offset) {
  for (uint32_t i = 0; i < 256; ++i) flash[offset + i] = 0xff;
  return true;
}
bool Program(void*, uint32_t offset, const uint8_t* data) {
  for (uint32_t i = 0; i < 256; ++i) flash[offset + i] &= data[i];
  return true;
}
bool Read(void*, uint32_t offset, uint8_t* data, uint32_t size) {
  for (uint32_t i = 0; i < size; ++i) data[i] = flash[offset + i];
  return true;
}

uint32_t CrcOf(tflite::MicroInterpreter* interpreter) {
  CheckpointPart parts[kMostParts];
  const int32_t count = TrainingParts(interpreter, parts, kMostParts);
  uint32_t crc = 0;
  for (int32_t i = 1; i < count; ++i) crc = Crc32(parts[i].data, parts[i].size, crc);
  return crc;
}

int Run() {
  TestResolver resolver;
  if (RegisterTrainOps(resolver) != kTfLiteOk) return 1;
  const tflite::Model* model = tflite::GetModel(kModel);
  tflite::MicroInterpreter interpreter(model, resolver, arena, kArenaBytes);
  if (AllocateTraining(&interpreter, model, resolver, kArenaBytes) != kTfLiteOk) return 1;
  const int64_t used[1] = {static_cast<int64_t>(interpreter.arena_used_bytes())};
  PutFields("arena", used, 1);
  const CheckpointStore store = {
      {nullptr, Erase, Program, Read, 256, 256, kSlotBytes}, Crc32(kModel, sizeof(kModel)), page};
  for (int32_t i = 0; i < kScriptLength; ++i) {
    CheckpointPart parts[kMostParts];
    const int32_t count = TrainingParts(&interpreter, parts, kMostParts);
    const int32_t label = kScript[i];
    int64_t line[6] = {label, 0, 0, 0, 0, 0};
    if (label == kReset) {
      if (interpreter.Reset() != kTfLiteOk) return 1;
    } else if (label == kSave) {
      line[1] = static_cast<int64_t>(CheckpointSave(store, parts, count));
    } else if (label == kLoad) {
      line[1] = static_cast<int64_t>(CheckpointLoad(store, parts, count, nullptr));
      line[5] = CrcOf(&interpreter);
    } else {
      StateOf(&interpreter)->decay = kDecay[i];
      line[1] = RunSample(&interpreter, kSamples[i], label) == kTfLiteOk ? 0 : 1;
      const TrainState& state = *StateOf(&interpreter);
      const TfLiteTensor* logits = interpreter.output(0);
      line[2] = state.guess;
      line[3] = state.step;
      line[4] = Crc32(logits->data.data, static_cast<uint32_t>(logits->bytes));
      line[5] = CrcOf(&interpreter);
    }
    PutFields("step", line, 6);
  }
#ifdef TFLM_TRAIN_BOARD
  const int64_t stack[1] = {BoardStackUsed()};
  PutFields("stack", stack, 1);
#endif
  return 0;
}

}  // namespace

int main() {
  const int code = Run();
  PutText(code == 0 ? "done\n" : "failed\n");
  return code;
}
