// Where training samples come from: arrays in flash, a ring of recent sensor readings, a file. A
// trainer asks for sample i of the batch when it needs it, more than once, and gets a pointer that
// stays valid until the next call.
#ifndef TFLM_TRAIN_MICRO_OPS_TRAINER_SAMPLE_SOURCE_H_
#define TFLM_TRAIN_MICRO_OPS_TRAINER_SAMPLE_SOURCE_H_

#include <cstdint>

namespace tflm_train {

struct SampleSource {
  void* context;
  const int8_t* (*input)(void* context, int32_t i);  // quantised for the model; null: cannot
  int32_t (*label)(void* context, int32_t i);
};

// Samples one after another in memory, of which `order` (may be null) picks some.
struct ArraySamples {
  const int8_t* inputs;
  uint32_t input_bytes;
  const int32_t* labels;
  const int32_t* order;

  int32_t At(int32_t i) const { return order == nullptr ? i : order[i]; }
  static const int8_t* Input(void* context, int32_t i) {
    const auto* self = static_cast<const ArraySamples*>(context);
    return self->inputs + static_cast<uint32_t>(self->At(i)) * self->input_bytes;
  }
  static int32_t Label(void* context, int32_t i) {
    const auto* self = static_cast<const ArraySamples*>(context);
    return self->labels[self->At(i)];
  }
  SampleSource Source() { return {this, Input, Label}; }
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TRAINER_SAMPLE_SOURCE_H_
