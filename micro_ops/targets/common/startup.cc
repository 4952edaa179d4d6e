#include "micro_ops/targets/common/startup.h"

#include "micro_ops/targets/common/board.h"

namespace tflm_train {
namespace {

constexpr uint32_t kPaint = 0xa5c35a3cu;

uint32_t* StackPointer() {
  uint32_t* sp;
  asm volatile("mov %0, sp" : "=r"(sp));
  return sp;
}

}  // namespace

bool PrepareMemory() {
  const uint32_t* from = linker_data_load;
  for (uint32_t* to = linker_data_begin; to < linker_data_end; ++to) *to = *from++;
  for (uint32_t* to = linker_bss_begin; to < linker_bss_end; ++to) *to = 0;
  uint32_t* const used = StackPointer() - 16;
  for (uint32_t* to = linker_stack_limit; to < used; ++to) *to = kPaint;
  void (** const begin)() = linker_init_begin;
  void (** const end)() = linker_init_end;
  return reinterpret_cast<uintptr_t>(begin) >= reinterpret_cast<uintptr_t>(end);
}

uint32_t BoardStackUsed() {
  const uint32_t* p = linker_stack_limit;
  while (p < linker_stack_top && *p == kPaint) ++p;
  return static_cast<uint32_t>(linker_stack_top - p) * sizeof(uint32_t);
}

}  // namespace tflm_train
