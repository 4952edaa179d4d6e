#include "micro_ops/trainer/qscheduler.h"

namespace tflm_train {

int32_t QSchedulerUpdate(const QSchedulerConfig& config, int64_t metric, QSchedulerState* state) {
  const int64_t gain = config.maximize ? metric - state->best : state->best - metric;
  if (!state->started || gain > config.tau) {
    state->started = 1;
    state->best = metric;
    state->stagnant = 0;
  } else if (++state->stagnant >= config.patience) {
    state->stagnant = 0;
    if (state->level + 1 < config.level_count) ++state->level;
  }
  return QSchedulerQ(config, *state);
}

}  // namespace tflm_train
