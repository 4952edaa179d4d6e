#include "micro_ops/armv6m/lanes.h"

namespace tflm_train {

#if defined(__arm__) && !defined(__ARM_FEATURE_DSP)

// A pair of entries costs 32 cycles for 8 products. r0 the list, r7 its end, r12 the offset in
// bytes, lr the sums in memory, r8 .. r11 those of the block. On the stack: the list, the blocks
// left.
__attribute__((naked, noinline)) void LaneSums(const LaneEntry*, int32_t, int32_t, int32_t*,
                                               int32_t, const uint32_t*) {
  asm volatile(
      ".syntax unified\n"
      "push {r4-r7, lr}\n"
      "mov r4, r8\n"
      "mov r5, r9\n"
      "mov r6, r10\n"
      "mov r7, r11\n"
      "push {r4-r7}\n"
      "lsls r2, r2, #2\n"
      "mov r12, r2\n"
      "mov lr, r3\n"
      "lsls r1, r1, #3\n"
      "adds r7, r0, r1\n"
      "ldr r1, [sp, #36]\n"  // blocks
      "push {r0, r1}\n"
      "0:\n"
      "mov r3, lr\n"
      "ldmia r3!, {r1, r2, r4, r5}\n"
      "mov r8, r1\n"
      "mov r9, r2\n"
      "mov r10, r4\n"
      "mov r11, r5\n"
      "cmp r0, r7\n"
      "bhs 2f\n"
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
      "mov r1, r8\n"
      "mov r2, r9\n"
      "mov r4, r10\n"
      "mov r5, r11\n"
      "mov r3, lr\n"
      "stmia r3!, {r1, r2, r4, r5}\n"
      "mov lr, r3\n"
      "mov r3, r12\n"
      "adds r3, #8\n"
      "mov r12, r3\n"
      "ldr r0, [sp, #0]\n"
      "ldr r1, [sp, #4]\n"
      "subs r1, r1, #1\n"
      "str r1, [sp, #4]\n"
      "bne 0b\n"
      "add sp, #8\n"
      "pop {r4-r7}\n"
      "mov r8, r4\n"
      "mov r9, r5\n"
      "mov r10, r6\n"
      "mov r11, r7\n"
      "pop {r4-r7, pc}\n");
}

#else

// The same arithmetic, word for word, for other machines: the tests run it.
void LaneSums(const LaneEntry* list, int32_t count, int32_t offset, int32_t* sums, int32_t blocks,
              const uint32_t* base) {
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
    for (int32_t word = 0; word < 2 * blocks; ++word) {
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
