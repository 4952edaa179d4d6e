// Tables of docs/zo_arithmetic.md; the values are a formula's, and a test computes them again.
#ifndef TFLM_TRAIN_MICRO_OPS_CORE_ZO_TABLES_H_
#define TFLM_TRAIN_MICRO_OPS_CORE_ZO_TABLES_H_

#include <cstdint>

namespace tflm_train {

extern const int32_t kZoExp2Table[257];    // 2^20 * 2^(-i/256)
extern const int32_t kZoLog2Table[257];    // 65536 * log2(1 + i/256)
extern const int32_t kZoCosineTable[129];  // 32768 * (1 + cos(pi i / 128))

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_CORE_ZO_TABLES_H_
