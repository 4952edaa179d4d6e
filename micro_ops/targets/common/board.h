// What a firmware application needs from a board. One implementation per target beside this folder.
#ifndef TFLM_TRAIN_MICRO_OPS_TARGETS_COMMON_BOARD_H_
#define TFLM_TRAIN_MICRO_OPS_TARGETS_COMMON_BOARD_H_

#include <cstdint>

namespace tflm_train {

void BoardInit();

// Blocking bytes of the console UART.
uint8_t BoardRead();
void BoardWrite(uint8_t byte);

// Around the work that is measured: a pin for a logic analyser or an emulator on RP2040, two
// symbols for an instruction counter on MPS3.
void BoardWorkBegin();
void BoardWorkEnd();

// Stops the emulator, or waits for ever on a board.
[[noreturn]] void BoardExit(int32_t code);

// Largest depth of the stack since start, in bytes: the linker's stack area is painted at start.
uint32_t BoardStackUsed();

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TARGETS_COMMON_BOARD_H_
