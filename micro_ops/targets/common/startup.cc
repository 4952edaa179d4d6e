#include "micro_ops/targets/common/startup.h"

#include "micro_ops/targets/common/board.h"
#include "micro_ops/targets/common/stack_paint.h"

namespace tflm_train {

bool PrepareMemory() {
  const uint32_t* from = linker_data_load;
  for (uint32_t* to = linker_data_begin; to < linker_data_end; ++to) *to = *from++;
  for (uint32_t* to = linker_bss_begin; to < linker_bss_end; ++to) *to = 0;
  PaintStack(linker_stack_limit);
  void (** const begin)() = linker_init_begin;
  void (** const end)() = linker_init_end;
  return reinterpret_cast<uintptr_t>(begin) >= reinterpret_cast<uintptr_t>(end);
}

uint32_t BoardStackUsed() { return StackUsed(linker_stack_limit, linker_stack_top); }

}  // namespace tflm_train
