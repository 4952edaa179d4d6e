// The least a C++ test needs: a failed check prints where and ends the process.
#ifndef TFLM_TRAIN_TESTS_CORE_CHECK_H_
#define TFLM_TRAIN_TESTS_CORE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define TFLM_TRAIN_CHECK(condition)                                                      \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (false)

#endif  // TFLM_TRAIN_TESTS_CORE_CHECK_H_
