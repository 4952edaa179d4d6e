// Stand-in for tests without a TFLM tree.
#ifndef TFLM_TRAIN_TESTING_MICRO_OP_RESOLVER_H_
#define TFLM_TRAIN_TESTING_MICRO_OP_RESOLVER_H_

#include "tensorflow/lite/micro/kernels/kernel_util.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace tflite {

// The stand-in reads builtin options itself; the type is here for the interface's sake.
typedef const void* (*TfLiteBridgeBuiltinParseFunction)(const Operator*);

class MicroOpResolver {
 public:
  virtual const TFLMRegistration* FindOp(BuiltinOperator op) const = 0;
  virtual const TFLMRegistration* FindOp(const char* name) const = 0;
  virtual TfLiteBridgeBuiltinParseFunction GetOpDataParser(BuiltinOperator op) const = 0;

 protected:
  ~MicroOpResolver() = default;
};

}  // namespace tflite

#endif  // TFLM_TRAIN_TESTING_MICRO_OP_RESOLVER_H_
