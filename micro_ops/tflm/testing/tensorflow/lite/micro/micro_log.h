// Stand-in for tests without a TFLM tree. Messages go to DebugLog, which the test brings.
#ifndef TFLM_TRAIN_TESTING_MICRO_LOG_H_
#define TFLM_TRAIN_TESTING_MICRO_LOG_H_

#include <cstdarg>

extern "C" void DebugLog(const char* format, va_list arguments);

inline void VMicroPrintf(const char* format, va_list arguments) {
  DebugLog(format, arguments);
  va_list none = {};
  DebugLog("\r\n", none);
}
inline void MicroPrintf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  VMicroPrintf(format, arguments);
  va_end(arguments);
}

#endif  // TFLM_TRAIN_TESTING_MICRO_LOG_H_
