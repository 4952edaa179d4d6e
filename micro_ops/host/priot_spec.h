// A layer as Python describes it: kind, sizes, ReLU. Checked before any memory is laid out by it.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_SPEC_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_SPEC_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "micro_ops/host/priot_net.h"

namespace tflm_train {

using PriotSpec = std::tuple<std::string, std::vector<int32_t>, bool>;

// Throws std::invalid_argument (ValueError in Python) for sizes no layer can have.
PriotLayer MakePriotLayer(const PriotSpec& spec);

// Throws std::invalid_argument unless `condition` holds.
void PriotNeed(bool condition, const std::string& message);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_PRIOT_SPEC_H_
