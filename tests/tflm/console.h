// Output of the test programs: standard output on this machine, the UART of an emulated board.
#ifndef TFLM_TRAIN_TESTS_TFLM_CONSOLE_H_
#define TFLM_TRAIN_TESTS_TFLM_CONSOLE_H_

#include <cstdarg>
#include <cstddef>
#include <cstdint>

#ifdef TFLM_TRAIN_BOARD
#include "micro_ops/targets/common/board.h"
inline void PutByte(char c) { tflm_train::BoardWrite(static_cast<uint8_t>(c)); }
#else
#include <cstdio>
inline void PutByte(char c) { putchar(c); }
#endif

inline void PutText(const char* text) {
  for (; *text != 0; ++text) PutByte(*text);
}
inline void PutNumber(int64_t value) {
  char digits[24];
  int count = 0;
  uint64_t rest = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  do {
    digits[count++] = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest > 0);
  if (value < 0) PutByte('-');
  while (count > 0) PutByte(digits[--count]);
}
inline void PutFields(const char* name, const int64_t* values, int count) {
  PutText(name);
  for (int i = 0; i < count; ++i) {
    PutByte(' ');
    PutNumber(values[i]);
  }
  PutByte('\n');
}

#ifdef TFLM_TRAIN_OWN_DEBUG_LOG
// What TFLM and the stand-in call for messages: %s and integers are enough here.
extern "C" void DebugLog(const char* format, va_list arguments) {
  for (; *format != 0; ++format) {
    if (*format != '%') {
      PutByte(*format);
      continue;
    }
    ++format;
    while (*format == 'l' || *format == 'z') ++format;
    if (*format == 's') {
      PutText(va_arg(arguments, const char*));
    } else if (*format == 'd' || *format == 'u' || *format == 'i' || *format == 'x') {
      PutNumber(va_arg(arguments, int));
    } else {
      PutByte('%');
      PutByte(*format);
    }
  }
}
#ifdef TFLM_TRAIN_REAL_TFLM
extern "C" int DebugVsnprintf(char* buffer, size_t size, const char*, va_list) {
  if (size > 0) buffer[0] = 0;
  return 0;
}
#endif
#endif

#endif  // TFLM_TRAIN_TESTS_TFLM_CONSOLE_H_
