// The board of micro_ops/targets/common on a Pico with the pico-sdk: its start-up, clocks and UART.
#include "hardware/gpio.h"
#include "hardware/uart.h"
#include "micro_ops/targets/common/board.h"
#include "micro_ops/targets/common/stack_paint.h"
#include "pico/stdlib.h"

extern "C" {  // of the SDK's linker script
extern uint32_t __StackBottom[], __StackTop[];
}

namespace tflm_train {
namespace {

constexpr uint kWorkPin = 15, kTransmitPin = 0, kReceivePin = 1, kBaud = 115200;

// Before main: the application calls nothing to begin with.
struct Start {
  Start() { BoardInit(); }
} start;

}  // namespace

void BoardInit() {
  PaintStack(__StackBottom);
  uart_init(uart0, kBaud);
  gpio_set_function(kTransmitPin, GPIO_FUNC_UART);
  gpio_set_function(kReceivePin, GPIO_FUNC_UART);
  gpio_init(kWorkPin);
  gpio_set_dir(kWorkPin, GPIO_OUT);
}

uint8_t BoardRead() { return static_cast<uint8_t>(uart_getc(uart0)); }
void BoardWrite(uint8_t byte) { uart_putc_raw(uart0, static_cast<char>(byte)); }
void BoardWorkBegin() { gpio_put(kWorkPin, true); }
void BoardWorkEnd() { gpio_put(kWorkPin, false); }

void BoardExit(int32_t) {
  while (true) tight_loop_contents();
}

uint32_t BoardStackUsed() { return StackUsed(__StackBottom, __StackTop); }

}  // namespace tflm_train
