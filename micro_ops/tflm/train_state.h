// What the operators of a training graph share: an int32 variable tensor, output 1 of the graph.
#ifndef TFLM_TRAIN_MICRO_OPS_TFLM_TRAIN_STATE_H_
#define TFLM_TRAIN_MICRO_OPS_TFLM_TRAIN_STATE_H_

#include <cstdint>

namespace tflm_train {

// Zeros after AllocateTensors() and Reset(), which is what makes the next Invoke() start from the
// initial scores: TFLM zeroes variable tensors, and a zeroed score is a score like any other.
struct TrainState {
  int32_t started;     // 0: the tensors that learn are to be set to their initial values
  int32_t step;        // labelled samples seen
  int32_t decay;       // written by the application: every update 2^decay times smaller
  int32_t active;      // the last sample left an error to train on
  int32_t guess;       // class of the last sample's largest logit
  int32_t correct;     // labelled samples whose guess was right
  int32_t zero_error;  // labelled samples without an error: confidently right, nothing to learn
  int32_t reserved;
};
constexpr int32_t kTrainStateWords = 8;
static_assert(sizeof(TrainState) == 4 * kTrainStateWords, "the tensor's layout");

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TFLM_TRAIN_STATE_H_
