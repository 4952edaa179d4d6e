// Stand-in for tests without a TFLM tree: custom operators alone.
#ifndef TFLM_TRAIN_TESTING_MICRO_MUTABLE_OP_RESOLVER_H_
#define TFLM_TRAIN_TESTING_MICRO_MUTABLE_OP_RESOLVER_H_

#include <cstring>

#include "tensorflow/lite/micro/kernels/kernel_util.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace tflite {

class MicroOpResolver {
 public:
  virtual const TFLMRegistration* FindOp(const char* name) const = 0;

 protected:
  ~MicroOpResolver() = default;
};

template <unsigned int kOpCount>
class MicroMutableOpResolver : public MicroOpResolver {
 public:
  const TFLMRegistration* FindOp(const char* name) const override {
    for (unsigned int i = 0; i < count_; ++i) {
      if (strcmp(registrations_[i].custom_name, name) == 0) return &registrations_[i];
    }
    return nullptr;
  }
  TfLiteStatus AddCustom(const char* name, const TFLMRegistration* registration) {
    if (count_ >= kOpCount || FindOp(name) != nullptr) return kTfLiteError;
    registrations_[count_] = *registration;
    registrations_[count_].builtin_code = BuiltinOperator_CUSTOM;
    registrations_[count_++].custom_name = name;
    return kTfLiteOk;
  }

 private:
  TFLMRegistration registrations_[kOpCount];
  unsigned int count_ = 0;
};

}  // namespace tflite

#endif  // TFLM_TRAIN_TESTING_MICRO_MUTABLE_OP_RESOLVER_H_
