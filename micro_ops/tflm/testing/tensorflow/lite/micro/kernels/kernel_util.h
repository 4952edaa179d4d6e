// Stand-in for tests without a TFLM tree: the C structs and calls the operators use, with the names
// of TFLM's documented kernel API. With TFLM_ROOT set, TFLM's own header takes this one's place.
#ifndef TFLM_TRAIN_TESTING_KERNEL_UTIL_H_
#define TFLM_TRAIN_TESTING_KERNEL_UTIL_H_

#include <cstddef>
#include <cstdint>

#include "tensorflow/lite/micro/micro_log.h"

// No definitions of the values beyond those in use.
typedef enum TfLiteStatus { kTfLiteOk = 0, kTfLiteError = 1 } TfLiteStatus;
typedef enum {
  kTfLiteInt32 = 2,
  kTfLiteUInt8 = 3,
  kTfLiteInt8 = 9,
  kTfLiteUInt16 = 17,
} TfLiteType;

typedef struct TfLiteIntArray {
  int size;
  int data[];
} TfLiteIntArray;

typedef union TfLitePtrUnion {
  int32_t* i32;
  uint8_t* uint8;
  int8_t* int8;
  char* raw;
  void* data;
} TfLitePtrUnion;

typedef struct TfLiteQuantizationParams {
  float scale;
  int32_t zero_point;
} TfLiteQuantizationParams;

typedef struct TfLiteTensor {
  TfLiteQuantizationParams params;
  TfLitePtrUnion data;
  TfLiteIntArray* dims;
  size_t bytes;
  TfLiteType type;
  bool is_variable;
} TfLiteTensor;

typedef struct TfLiteEvalTensor {
  TfLitePtrUnion data;
  TfLiteIntArray* dims;
  TfLiteType type;
} TfLiteEvalTensor;

typedef struct TfLiteNode {
  TfLiteIntArray* inputs;
  TfLiteIntArray* outputs;
  void* user_data;
  const void* builtin_data;
} TfLiteNode;

typedef struct TfLiteContext {
  void* impl_;
  void (*ReportError)(struct TfLiteContext*, const char* format, ...);
  void* (*AllocatePersistentBuffer)(struct TfLiteContext*, size_t bytes);
  TfLiteStatus (*RequestScratchBufferInArena)(struct TfLiteContext*, size_t bytes, int* index);
  void* (*GetScratchBuffer)(struct TfLiteContext*, int index);
  TfLiteEvalTensor* (*GetEvalTensor)(const struct TfLiteContext*, int index);
} TfLiteContext;

struct TFLMRegistration {
  void* (*init)(TfLiteContext* context, const char* buffer, size_t length);
  void (*free)(TfLiteContext* context, void* buffer);
  TfLiteStatus (*prepare)(TfLiteContext* context, TfLiteNode* node);
  TfLiteStatus (*invoke)(TfLiteContext* context, TfLiteNode* node);
  void (*reset)(TfLiteContext* context, void* buffer);
  int32_t builtin_code;
  const char* custom_name;
};

#define TF_LITE_ENSURE_MSG(context, value, ...)                    \
  do {                                                             \
    if (!(value)) {                                                \
      (context)->ReportError((context), __FILE__ " " __VA_ARGS__); \
      return kTfLiteError;                                         \
    }                                                              \
  } while (0)
#define TF_LITE_ENSURE_STATUS(a)  \
  do {                            \
    const TfLiteStatus s = (a);   \
    if (s != kTfLiteOk) return s; \
  } while (0)

namespace tflite {

class MicroContext {
 public:
  virtual TfLiteTensor* AllocateTempTfLiteTensor(int index) = 0;
  virtual void DeallocateTempTfLiteTensor(TfLiteTensor* tensor) = 0;
  TfLiteTensor* AllocateTempInputTensor(const TfLiteNode* node, int index) {
    return Temp(node->inputs, index);
  }
  TfLiteTensor* AllocateTempOutputTensor(const TfLiteNode* node, int index) {
    return Temp(node->outputs, index);
  }

 protected:
  ~MicroContext() = default;

 private:
  TfLiteTensor* Temp(const TfLiteIntArray* list, int index) {
    if (index >= list->size || list->data[index] < 0) return nullptr;
    return AllocateTempTfLiteTensor(list->data[index]);
  }
};

inline MicroContext* GetMicroContext(const TfLiteContext* context) {
  return static_cast<MicroContext*>(context->impl_);
}

namespace micro {

inline TFLMRegistration RegisterOp(void* (*init)(TfLiteContext*, const char*, size_t),
                                   TfLiteStatus (*prepare)(TfLiteContext*, TfLiteNode*),
                                   TfLiteStatus (*invoke)(TfLiteContext*, TfLiteNode*)) {
  return {init, nullptr, prepare, invoke, nullptr, 0, nullptr};
}

inline TfLiteEvalTensor* GetMutableEvalInput(const TfLiteContext* context, const TfLiteNode* node,
                                             int index) {
  return context->GetEvalTensor(context, node->inputs->data[index]);
}
inline const TfLiteEvalTensor* GetEvalInput(const TfLiteContext* context, const TfLiteNode* node,
                                            int index) {
  return GetMutableEvalInput(context, node, index);
}
inline TfLiteEvalTensor* GetEvalOutput(const TfLiteContext* context, const TfLiteNode* node,
                                       int index) {
  return context->GetEvalTensor(context, node->outputs->data[index]);
}

template <class T>
T* GetTensorData(TfLiteEvalTensor* tensor) {
  return reinterpret_cast<T*>(tensor->data.raw);
}
template <class T>
const T* GetTensorData(const TfLiteEvalTensor* tensor) {
  return reinterpret_cast<const T*>(tensor->data.raw);
}

}  // namespace micro
}  // namespace tflite

#endif  // TFLM_TRAIN_TESTING_KERNEL_UTIL_H_
