// The exact gradient of a readable last dense layer: (softmax - onehot) times its input, which
// costs one forward pass and no backward kernel. For a last layer it needs far fewer forward passes
// than zeroth-order training; that one is for layers whose gradient cannot be had. docs/tflm.md,
// "Exact head", defines the bits.
#ifndef TFLM_TRAIN_MICRO_OPS_TRAINER_EXACT_HEAD_H_
#define TFLM_TRAIN_MICRO_OPS_TRAINER_EXACT_HEAD_H_

#include <cstdint>

namespace tflm_train {

struct ExactHead {
  int8_t* weights;  // [classes][inputs]
  int32_t classes;
  int32_t inputs;
  int32_t input_zero_point;
  int32_t loss_multiplier;  // logits scale * log2(e) * 2^16, as in zo_loss.h
  int32_t limit;            // largest |weight|
  uint32_t seed;            // of stochastic rounding
  uint32_t rate_q16;  // weight steps * 2^16 for an error of 1 at a feature of 128 steps; <= 2^24
};

// p[i] = floor(2^15 * softmax(logits)[i]); error = p - 2^15 * onehot.
void ExactHeadError(const int8_t* logits, int32_t classes, int32_t label, int32_t multiplier,
                    int32_t* error);

// w <- clamp(w - stochastic_round(rate * error * (x - zero point)), +-limit). `error` is scratch of
// `classes` words. Returns the number of weights that changed.
int32_t ExactHeadStep(const ExactHead& head, const int8_t* input, const int8_t* logits,
                      int32_t label, uint32_t step, int32_t* error);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TRAINER_EXACT_HEAD_H_
