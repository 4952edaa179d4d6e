// Everything between this include and priot_avx2_end.h may use AVX2; the rest of the program runs
// on any x86-64. Include all other headers first: functions they define must not become AVX2 code.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
