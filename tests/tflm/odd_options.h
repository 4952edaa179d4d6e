// A resolver whose operators get their options at odd addresses, as a file mapped at any offset
// would hand them out.
#ifndef TFLM_TRAIN_TESTS_TFLM_ODD_OPTIONS_H_
#define TFLM_TRAIN_TESTS_TFLM_ODD_OPTIONS_H_

#include <cstring>

#include "micro_ops/tflm/train_ops.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"

class OddOptionsResolver : public tflite::MicroMutableOpResolver<tflm_train::kTrainOpCount> {
 public:
  const TFLMRegistration* FindOp(const char* name) const override {
    const TFLMRegistration* found = MicroMutableOpResolver::FindOp(name);
    if (found == nullptr) return nullptr;
    int i = 0;
    while (original[i] != nullptr && original[i] != found) ++i;
    if (original[i] == nullptr) {
      original[i] = found;
      shifted[i] = *found;
      shifted[i].init = kInits[i];
    }
    return &shifted[i];
  }

 private:
  static constexpr int kCount = tflm_train::kTrainOpCount;
  using Init = void* (*)(TfLiteContext*, const char*, size_t);

  template <int kOp>
  static void* InitShifted(TfLiteContext* context, const char* options, size_t size) {
    // Odd for every operator of the graph, each in bytes of its own.
    char* to = bytes + used + 1;
    used += (size + 3) / 2 * 2;
    memcpy(to, options, size);
    return original[kOp]->init(context, to, size);
  }

  alignas(8) static inline char bytes[2048] = {};
  static inline size_t used = 0;
  static inline const TFLMRegistration* original[kCount + 1] = {};
  static inline TFLMRegistration shifted[kCount] = {};
  static constexpr Init kInits[] = {InitShifted<0>, InitShifted<1>, InitShifted<2>,
                                    InitShifted<3>, InitShifted<4>, InitShifted<5>,
                                    InitShifted<6>, InitShifted<7>, InitShifted<8>};
  static_assert(sizeof(kInits) / sizeof(kInits[0]) == kCount, "one entry per operator");
};

#endif  // TFLM_TRAIN_TESTS_TFLM_ODD_OPTIONS_H_
