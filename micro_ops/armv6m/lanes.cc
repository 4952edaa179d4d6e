#include "micro_ops/armv6m/lanes.h"

namespace tflm_train {

#if defined(__arm__) && !defined(__ARM_FEATURE_DSP)

// r0 the list, r7 its end, sums in r8 .. r11. A pair of entries costs 27 cycles for 8 products.
// r12 holds the offset in bytes.
__attribute__((naked, noinline)) void LaneSums(const LaneEntry*, int32_t, const uint32_t*, int32_t,
                                               int32_t*) {
  asm volatile(
      ".syntax unified\n"
      "push {r4-r7, lr}\n"
      "mov r4, r8\n"
      "mov r5, r9\n"
      "mov r6, r10\n"
      "mov r7, r11\n"
      "push {r4-r7}\n"
      "lsls r3, r3, #2\n"
      "mov r12, r3\n"
      "ldr r3, [sp, #36]\n"  // sums
      "mov lr, r3\n"
      "ldmia r3!, {r4-r7}\n"
      "mov r8, r4\n"
      "mov r9, r5\n"
      "mov r10, r6\n"
      "mov r11, r7\n"
      "lsls r1, r1, #3\n"
      "adds r7, r0, r1\n"
      "cmp r0, r7\n"
      "bhs 2f\n"
      ".balign 4\n"
      "1:\n"
      "ldmia r0!, {r1, r2, r3, r4}\n"  // factor, row, factor, row
      "add r2, r12\n"
      "add r4, r12\n"
      "ldmia r2!, {r5, r6}\n"
      "muls r5, r1, r5\n"
      "muls r6, r1, r6\n"
      "ldmia r4!, {r1, r2}\n"
      "muls r1, r3, r1\n"
      "muls r2, r3, r2\n"
      "adds r5, r5, r1\n"
      "adds r6, r6, r2\n"
      "sxth r1, r5\n"
      "add r8, r1\n"
      "subs r5, r5, r1\n"
      "asrs r5, r5, #16\n"
      "add r9, r5\n"
      "sxth r2, r6\n"
      "add r10, r2\n"
      "subs r6, r6, r2\n"
      "asrs r6, r6, #16\n"
      "add r11, r6\n"
      "cmp r0, r7\n"
      "blo 1b\n"
      "2:\n"
      "mov r3, lr\n"
      "mov r4, r8\n"
      "mov r5, r9\n"
      "mov r6, r10\n"
      "mov r7, r11\n"
      "stmia r3!, {r4-r7}\n"
      "pop {r4-r7}\n"
      "mov r8, r4\n"
      "mov r9, r5\n"
      "mov r10, r6\n"
      "mov r11, r7\n"
      "pop {r4-r7, pc}\n");
}

#else

// The same arithmetic, word for word, for other machines: the tests run it.
void LaneSums(const LaneEntry* list, int32_t count, const uint32_t* base, int32_t offset,
              int32_t* sums) {
  const auto row = [&](const LaneEntry& entry) {
#if defined(__arm__)
    return entry.row + offset;
#else
    return base + entry.row + offset;
#endif
  };
  (void)base;
  for (int32_t i = 0; i < count; i += 2) {
    const uint32_t* first = row(list[i]);
    const uint32_t* second = row(list[i + 1]);
    for (int32_t word = 0; word < 2; ++word) {
      const uint32_t both = static_cast<uint32_t>(list[i].factor) * first[word] +
                            static_cast<uint32_t>(list[i + 1].factor) * second[word];
      const int32_t low = static_cast<int16_t>(both);
      sums[2 * word] += low;
      sums[2 * word + 1] += static_cast<int32_t>(both - static_cast<uint32_t>(low)) >> 16;
    }
  }
}

#endif

}  // namespace tflm_train
