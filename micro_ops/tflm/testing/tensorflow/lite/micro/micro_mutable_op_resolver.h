// Stand-in for tests without a TFLM tree: custom operators and FULLY_CONNECTED.
#ifndef TFLM_TRAIN_TESTING_MICRO_MUTABLE_OP_RESOLVER_H_
#define TFLM_TRAIN_TESTING_MICRO_MUTABLE_OP_RESOLVER_H_

#include <cstring>

#include "tensorflow/lite/micro/kernels/fully_connected.h"
#include "tensorflow/lite/micro/micro_op_resolver.h"

namespace tflite {

template <unsigned int kOpCount>
class MicroMutableOpResolver : public MicroOpResolver {
 public:
  const TFLMRegistration* FindOp(const char* name) const override {
    for (unsigned int i = 0; i < count_; ++i) {
      const char* custom = registrations_[i].custom_name;
      if (custom != nullptr && strcmp(custom, name) == 0) return &registrations_[i];
    }
    return nullptr;
  }
  const TFLMRegistration* FindOp(BuiltinOperator op) const override {
    for (unsigned int i = 0; i < count_; ++i) {
      if (registrations_[i].builtin_code == op) return &registrations_[i];
    }
    return nullptr;
  }
  TfLiteBridgeBuiltinParseFunction GetOpDataParser(BuiltinOperator) const override {
    return nullptr;
  }
  TfLiteStatus AddCustom(const char* name, const TFLMRegistration* registration) {
    if (count_ >= kOpCount || FindOp(name) != nullptr) return kTfLiteError;
    return Add(*registration, BuiltinOperator_CUSTOM, name);
  }
  TfLiteStatus AddFullyConnected() {
    return Add(Register_FULLY_CONNECTED(), BuiltinOperator_FULLY_CONNECTED, nullptr);
  }

 private:
  TfLiteStatus Add(const TFLMRegistration& registration, BuiltinOperator op, const char* name) {
    if (count_ >= kOpCount) return kTfLiteError;
    registrations_[count_] = registration;
    registrations_[count_].builtin_code = op;
    registrations_[count_++].custom_name = name;
    return kTfLiteOk;
  }

  TFLMRegistration registrations_[kOpCount];
  unsigned int count_ = 0;
};

}  // namespace tflite

#endif  // TFLM_TRAIN_TESTING_MICRO_MUTABLE_OP_RESOLVER_H_
