// RP2040: vectors, reset handler, UART0 on pins 0 and 1, a work pin. Clocks stay as the boot ROM or
// an emulator left them.
#include "micro_ops/targets/common/board.h"

#include "micro_ops/targets/common/startup.h"

int main();

namespace tflm_train {
namespace {

constexpr uint32_t kWorkPin = 15;

volatile uint32_t& Register(uint32_t address) {
  return *reinterpret_cast<volatile uint32_t*>(address);
}

constexpr uint32_t kResets = 0x4000c000, kResetDone = kResets + 8, kClearAlias = 0x3000;
constexpr uint32_t kResetIoBank0 = 1u << 5, kResetPadsBank0 = 1u << 8, kResetUart0 = 1u << 22;
constexpr uint32_t kIoBank0 = 0x40014000;  // CTRL of pin n at 8 n + 4
constexpr uint32_t kFunctionUart = 2, kFunctionSio = 5;
constexpr uint32_t kSioOutSet = 0xd0000014, kSioOutClear = 0xd0000018, kSioEnableSet = 0xd0000024;
constexpr uint32_t kUart0 = 0x40034000;
constexpr uint32_t kUartData = kUart0, kUartFlags = kUart0 + 0x18, kUartIntegerBaud = kUart0 + 0x24,
                   kUartFractionBaud = kUart0 + 0x28, kUartLine = kUart0 + 0x2c,
                   kUartControl = kUart0 + 0x30;
constexpr uint32_t kReceiveEmpty = 1u << 4, kTransmitFull = 1u << 5;

}  // namespace

void BoardInit() {
  const uint32_t blocks = kResetIoBank0 | kResetPadsBank0 | kResetUart0;
  Register(kResets + kClearAlias) = blocks;
  while ((Register(kResetDone) & blocks) != blocks) {
  }
  Register(kIoBank0 + 4) = kFunctionUart;
  Register(kIoBank0 + 12) = kFunctionUart;
  Register(kIoBank0 + 8 * kWorkPin + 4) = kFunctionSio;
  Register(kSioEnableSet) = 1u << kWorkPin;
  // 115200 baud at a 125 MHz peripheral clock.
  Register(kUartIntegerBaud) = 67;
  Register(kUartFractionBaud) = 52;
  Register(kUartLine) = 0x70;  // 8 bits, FIFOs
  Register(kUartControl) = 0x301;
}

uint8_t BoardRead() {
  while (Register(kUartFlags) & kReceiveEmpty) {
  }
  return static_cast<uint8_t>(Register(kUartData));
}

void BoardWrite(uint8_t byte) {
  while (Register(kUartFlags) & kTransmitFull) {
  }
  Register(kUartData) = byte;
}

void BoardWorkBegin() { Register(kSioOutSet) = 1u << kWorkPin; }
void BoardWorkEnd() { Register(kSioOutClear) = 1u << kWorkPin; }

void BoardExit(int32_t code) {
  // An emulator reads r0; on a board without a debugger the break point is a hard fault, where it
  // stays.
  register int32_t r0 asm("r0") = code;
  asm volatile("bkpt 0xab" : : "r"(r0));
  while (true) {
  }
}

}  // namespace tflm_train

extern "C" [[noreturn]] void ResetHandler() {
  if (!tflm_train::PrepareMemory()) tflm_train::BoardExit(3);
  tflm_train::BoardInit();
  tflm_train::BoardExit(main());
}

extern "C" [[noreturn]] void FaultHandler() { tflm_train::BoardExit(2); }

extern "C" const void* const kVectors[16] __attribute__((section(".vectors"), used)) = {
    linker_stack_top,
    reinterpret_cast<const void*>(&ResetHandler),
    reinterpret_cast<const void*>(&FaultHandler),
    reinterpret_cast<const void*>(&FaultHandler),
};
