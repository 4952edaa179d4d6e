// MPS3 AN547, a Cortex-M55 with MVE: vectors, reset handler, UART0, semihosting exit.
#include "micro_ops/targets/common/board.h"

#include "micro_ops/targets/common/startup.h"

int main();

namespace tflm_train {
namespace {

volatile uint32_t& Register(uint32_t address) {
  return *reinterpret_cast<volatile uint32_t*>(address);
}

constexpr uint32_t kAccessControl = 0xe000ed88;  // CPACR; coprocessors 10 and 11 are FPU and MVE
constexpr uint32_t kUart0 = 0x49303000;
constexpr uint32_t kUartData = kUart0, kUartState = kUart0 + 4, kUartControl = kUart0 + 8,
                   kUartBaud = kUart0 + 16;
constexpr uint32_t kTransmitFull = 1, kReceiveFull = 2;
constexpr uint32_t kExitExtended = 0x20, kApplicationExit = 0x20026;

}  // namespace

void BoardInit() {
  Register(kUartBaud) = 16;
  Register(kUartControl) = 3;  // transmit and receive
}

uint8_t BoardRead() {
  while (!(Register(kUartState) & kReceiveFull)) {
  }
  return static_cast<uint8_t>(Register(kUartData));
}

void BoardWrite(uint8_t byte) {
  while (Register(kUartState) & kTransmitFull) {
  }
  Register(kUartData) = byte;
}

void BoardExit(int32_t code) {
  const uint32_t block[2] = {kApplicationExit, static_cast<uint32_t>(code)};
  register uint32_t r0 asm("r0") = kExitExtended;
  register const uint32_t* r1 asm("r1") = block;
  asm volatile("bkpt 0xab" : : "r"(r0), "r"(r1) : "memory");
  while (true) {
  }
}

}  // namespace tflm_train

// Found by name: an instruction counter stops at them.
extern "C" __attribute__((noinline, used)) void board_work_begin() { asm volatile("nop"); }
extern "C" __attribute__((noinline, used)) void board_work_end() { asm volatile("nop\n nop"); }

namespace tflm_train {
void BoardWorkBegin() { board_work_begin(); }
void BoardWorkEnd() { board_work_end(); }
}  // namespace tflm_train

extern "C" [[noreturn]] void StartC() {
  if (!tflm_train::PrepareMemory()) tflm_train::BoardExit(3);
  tflm_train::BoardInit();
  tflm_train::BoardExit(main());
}

// No vector instruction may run before the units are on, and compilers may use one anywhere.
extern "C" __attribute__((naked)) void ResetHandler() {
  asm volatile(
      "ldr r0, =%c0\n"
      "ldr r1, [r0]\n"
      "orr r1, r1, #0xf00000\n"
      "str r1, [r0]\n"
      "dsb\n"
      "isb\n"
      "b StartC\n"
      ".ltorg\n"
      :
      : "i"(tflm_train::kAccessControl));
}

extern "C" [[noreturn]] void FaultHandler() { tflm_train::BoardExit(2); }

extern "C" const void* const kVectors[16] __attribute__((section(".vectors"), used)) = {
    linker_stack_top,
    reinterpret_cast<const void*>(&ResetHandler),
    reinterpret_cast<const void*>(&FaultHandler),
    reinterpret_cast<const void*>(&FaultHandler),
    reinterpret_cast<const void*>(&FaultHandler),
    reinterpret_cast<const void*>(&FaultHandler),
    reinterpret_cast<const void*>(&FaultHandler),
};
