// Allocates and invokes each model of train_case.h and prints what became of it; also reads option
// bytes at every alignment.
#include "console.h"
#include "micro_ops/tflm/op_options.h"
#include "micro_ops/tflm/train_ops.h"
#include "micro_ops/tflm/train_session.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include "train_case.h"

using namespace tflm_train;  // NOLINT: a test program

namespace {

alignas(16) uint8_t arena[kArenaBytes];
char shifted[sizeof(MaskedOptions) + 8];

void TryModel(const unsigned char* model, int32_t number, size_t bytes) {
  tflite::MicroMutableOpResolver<kTrainOpCount> resolver;
  if (kRegister && RegisterTrainOps(resolver) != kTfLiteOk) return;
  const tflite::Model* graph = tflite::GetModel(model);
  if (bytes <= 16) {
    // So much less than the need.
    const size_t need = ArenaNeed(graph, resolver, arena, kArenaBytes);
    bytes = need - bytes;
    const int64_t line[2] = {static_cast<int64_t>(need), static_cast<int64_t>(bytes)};
    PutFields("need", line, 2);
  }
  tflite::MicroInterpreter interpreter(graph, resolver, arena, bytes);
  int64_t line[3] = {number, AllocateTraining(&interpreter, graph, resolver, bytes) == kTfLiteOk,
                     0};
  if (line[1] != 0) {
    // A label of 10 is one too many for ten classes.
    *interpreter.input(1)->data.i32 = number == kBadLabelModel ? 10 : 0;
    line[2] = interpreter.Invoke() == kTfLiteOk;
  }
  PutFields("model", line, 3);
}

void TryOptions() {
  for (int offset = 0; offset < 8; ++offset) {
    for (int i = 0; i < 48; ++i) shifted[offset + i] = static_cast<char>(i * 5 + 1);
    MaskedOptions o = {};
    const bool ok = ReadOptions(shifted + offset, 48, &o);
    const int64_t line[4] = {offset, ok, o.version, o.layer};
    PutFields("options", line, 4);
  }
}

}  // namespace

int main() {
  TryOptions();
  for (int32_t i = 0; i < kModelCount; ++i) TryModel(kModels[i], i, kArenaSizes[i]);
  PutText("done\n");
  return 0;
}
