// C entry points for tests/tflm/test_checkpoint_store.py: one part or three, flash by callbacks.
#include "micro_ops/trainer/checkpoint_store.h"

using tflm_train::CheckpointPart;
using tflm_train::CheckpointStore;

extern "C" {

struct ShimFlash {
  bool (*erase)(void*, uint32_t);
  bool (*program)(void*, uint32_t, const uint8_t*);
  bool (*read)(void*, uint32_t, uint8_t*, uint32_t);
  uint32_t sector_bytes, program_bytes, slot_bytes, model_hash;
};

static int Run(const ShimFlash& f, uint8_t* data, uint32_t size, uint32_t* sequence, bool save) {
  uint8_t page[4096];
  CheckpointStore store = {
      {nullptr, f.erase, f.program, f.read, f.sector_bytes, f.program_bytes, f.slot_bytes},
      f.model_hash,
      page};
  // In three uneven pieces, as score tensors come.
  const uint32_t first = size / 3, second = size / 2;
  const CheckpointPart parts[3] = {
      {data, first}, {data + first, second - first}, {data + second, size - second}};
  const auto status = save ? tflm_train::CheckpointSave(store, parts, 3)
                           : tflm_train::CheckpointLoad(store, parts, 3, sequence);
  return static_cast<int>(status);
}

int shim_save(const ShimFlash* flash, uint8_t* data, uint32_t size) {
  return Run(*flash, data, size, nullptr, true);
}
int shim_load(const ShimFlash* flash, uint8_t* data, uint32_t size, uint32_t* sequence) {
  return Run(*flash, data, size, sequence, false);
}
const char* shim_text(int status) {
  return tflm_train::CheckpointStatusText(static_cast<tflm_train::CheckpointStatus>(status));
}
}
