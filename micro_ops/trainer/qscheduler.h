// QScheduler on the device: raises the number of directions when an integer metric stalls.
// tflm_train/zo/_qscheduler.py is the host's; the two agree on every integer-valued metric.
// QScheduler paper, Algorithm 1.
#ifndef TFLM_TRAIN_MICRO_OPS_TRAINER_QSCHEDULER_H_
#define TFLM_TRAIN_MICRO_OPS_TRAINER_QSCHEDULER_H_

#include <cstdint>

namespace tflm_train {

constexpr int32_t kQMaxLevels = 16;

struct QSchedulerConfig {
  const int32_t* levels;  // q in growing order, as the host's schedule climbs them
  int32_t level_count;    // 1 .. kQMaxLevels
  int32_t patience;       // validations without improvement before the next level, at least 1
  int64_t tau;            // an improvement is more than this, >= 0
  bool maximize;          // true for a number of right answers, false for a loss
};

struct QSchedulerState {
  int64_t best;
  int32_t stagnant;
  int32_t level;
  int32_t started;  // 0 until the first metric
};

inline int32_t QSchedulerQ(const QSchedulerConfig& config, const QSchedulerState& state) {
  return config.levels[state.level];
}

// Takes a validation metric with |metric| < 2^62; returns the q to use from now on.
int32_t QSchedulerUpdate(const QSchedulerConfig& config, int64_t metric, QSchedulerState* state);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TRAINER_QSCHEDULER_H_
