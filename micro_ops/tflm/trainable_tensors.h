// Which tensors of an ordinary converted .tflite training may change: read from its metadata entry
// `tflm_train`, so that the file alone is enough. Boot-time code: floats and divisions are fine.
#ifndef TFLM_TRAIN_MICRO_OPS_TFLM_TRAINABLE_TENSORS_H_
#define TFLM_TRAIN_MICRO_OPS_TFLM_TRAINABLE_TENSORS_H_

#include <cstdint>

#include "tensorflow/lite/schema/schema_generated.h"

namespace tflm_train {

constexpr int32_t kMaxTrainable = 16;

struct TrainableTensor {
  int32_t tensor;       // index in sub-graph 0
  int32_t op;           // that reads it
  uint32_t size;        // elements
  int32_t unit;         // steps of a perturbation: 1 for weights
  bool is_bias;         // int32 bias, else int8 weights
  const void* initial;  // in the flatbuffer
};

struct TrainableList {
  TrainableTensor tensors[kMaxTrainable];
  int32_t count;
  int32_t logits;  // tensor index
  int32_t classes;
  float logits_scale;
};

enum class ListStatus : int32_t {
  kOk = 0,
  kNoEntry = 1,  // not converted by tflm-train
  kDamaged = 2,  // the entry does not parse, or names what the model does not have
  kTooMany = 3,  // more than kMaxTrainable
  kNothing = 4,  // nothing is trainable
};

ListStatus FindTrainable(const tflite::Model* model, TrainableList* list);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TFLM_TRAINABLE_TENSORS_H_
