// Start-up shared by the targets: initialised data, zeroed data, painted stack.
#ifndef TFLM_TRAIN_MICRO_OPS_TARGETS_COMMON_STARTUP_H_
#define TFLM_TRAIN_MICRO_OPS_TARGETS_COMMON_STARTUP_H_

#include <cstdint>

extern "C" {
// Of the linker script.
extern uint32_t linker_data_load[], linker_data_begin[], linker_data_end[];
extern uint32_t linker_bss_begin[], linker_bss_end[];
extern uint32_t linker_stack_limit[], linker_stack_top[];
extern void (*linker_init_begin[])();
extern void (*linker_init_end[])();
}

namespace tflm_train {

// Copies .data, clears .bss and paints the free stack. There are no constructors to run: an image
// that has one stops here rather than starting half made.
bool PrepareMemory();

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TARGETS_COMMON_STARTUP_H_
