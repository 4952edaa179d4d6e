// Option tables of operators.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_MODEL_OPTIONS_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_MODEL_OPTIONS_H_

#include "micro_ops/host/flatbuffer.h"
#include "micro_ops/host/model.h"

namespace tflm_train {

// The options an operator of that kind has; throws ModelError for another kind's table. type: the
// file's value of the builtin_options union.
Options ReadOptions(const Operator& op, const flatbuffer::Table& table, uint8_t type, size_t index);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_MODEL_OPTIONS_H_
