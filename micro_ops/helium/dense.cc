// Dense layers of a training step on Cortex-M55.
#include "micro_ops/core/niti_loops.h"
#include "micro_ops/helium/dots.h"
#include "micro_ops/helium/update.h"
#include "micro_ops/trainer/dead_zone.h"
#include "micro_ops/trainer/scored_bits.h"
#include "micro_ops/trainer/train_kernels.h"

namespace tflm_train {
namespace {

bool IsDense(const ScoreView* scores) {
  return scores != nullptr && scores->storage == ScoreStorage::kDense;
}

struct ErrorRow {
  int32_t error;
  int32_t first_edge;
};
constexpr int32_t kErrorRows = 64;

// Sums of inputs i .. i + 3 over all rows with an error.
int32x4_t ErrorSums(const ErrorRow* rows, int32_t count, const int8_t* weights,
                    const ScoreView* scores, int32_t i, mve_pred16_t inside) {
  int32x4_t sums = vdupq_n_s32(0);
  for (int32_t k = 0; k < count; ++k) {
    const int32_t edge = rows[k].first_edge + i;
    mve_pred16_t keep = inside;
    if (scores != nullptr) {
      keep =
          vcmpgeq_m_n_s32(vldrbq_z_s32(scores->scores + edge, inside), scores->threshold, inside);
    }
    sums = vmlaq_n_s32(sums, vldrbq_z_s32(weights + edge, keep), rows[k].error);
  }
  return sums;
}

// Packed scores are read row by row: sums of all inputs at once.
void PackedSums(const DenseShape& shape, const int8_t* error_out, const int8_t* weights,
                const ScoreView& scores, int32_t* sums) {
  int32_t rank = 0;
  for (int32_t i = 0; i < shape.inputs; ++i) sums[i] = 0;
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int32_t e = error_out[o];
    if (e == 0) {
      SkipScoredFast(scores, o, shape.inputs, &rank);
      continue;
    }
    const int8_t* w = weights + o * shape.inputs;
    AddScaled(w, e, shape.inputs, sums);
    ForEachPruned(scores, o, shape.inputs, &rank, [&](int32_t i) { sums[i] -= e * w[i]; });
  }
}

void UpdatePacked(const DenseShape& shape, const int8_t* input, const int8_t* error,
                  const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                  ScoreCounts* counts) {
  const DeadZone zone = FindDeadZone(params);
  int32_t rank = 0;
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int32_t e = error[o], first = o * shape.inputs;
    if (e == 0) {
      SkipScoredFast(scores, o, shape.inputs, &rank);
      continue;
    }
    VisitScoredFast(scores, o, shape.inputs, &rank, [&](int32_t i, int32_t score) {
      const int32_t product = weights[first + i] * (e * input[i]);
      if (zone.Holds(product)) return;
      PriotApplyStep(scores, score, UpdateStep(params, product, first + i), counts);
    });
  }
}

}  // namespace

void TrainDenseForward(const DenseShape& shape, const int8_t* input, const int8_t* weights,
                       const int32_t* bias, const ScoreView* scores, const Requantize& requantize,
                       void* scratch, int8_t* output) {
  const int32_t n = shape.inputs;
  (void)scratch;
  if (scores != nullptr && !IsDense(scores)) {
    int32_t rank = 0;
    for (int32_t o = 0; o < shape.outputs; ++o) {
      const int8_t* w = weights + o * n;
      int32_t sum = BiasOf(bias, o) + Dot1(input, w, n);
      ForEachPruned(*scores, o, n, &rank, [&](int32_t i) { sum -= input[i] * w[i]; });
      output[o] = RequantizeValue(requantize, sum, o);
    }
    return;
  }
  int32_t o = 0;
  if (scores == nullptr) {
    for (; o + 4 <= shape.outputs; o += 4) {
      int32_t sums[4];
      for (int32_t k = 0; k < 4; ++k) sums[k] = BiasOf(bias, o + k);
      Dot4(input, weights + o * n, n, n, sums);
      Requantize4(requantize, sums, o, 1, output + o);
    }
    for (; o < shape.outputs; ++o) {
      const int32_t sum = BiasOf(bias, o) + Dot1(input, weights + o * n, n);
      output[o] = RequantizeValue(requantize, sum, o);
    }
    return;
  }
  for (; o < shape.outputs; o += 2) {
    // The second row of the last pair is the first one again when their number is odd.
    const int32_t count = shape.outputs - o < 2 ? 1 : 2;
    int32_t sums[2];
    MaskedDot2(input, weights + o * n, scores->scores + o * n, scores->threshold,
               count == 2 ? n : 0, n, sums);
    for (int32_t k = 0; k < count; ++k) {
      output[o + k] = RequantizeValue(requantize, BiasOf(bias, o + k) + sums[k], o + k);
    }
  }
}

void TrainDenseBackward(const DenseShape& shape, const int8_t* error_out, const int8_t* weights,
                        const ScoreView* scores, const int8_t* relu_output,
                        const Requantize& requantize, void* scratch, int8_t* error_in) {
  ErrorRow rows[kErrorRows];
  int32_t count = 0;
  for (int32_t o = 0; o < shape.outputs; ++o) {
    if (error_out[o] == 0) continue;
    if (count < kErrorRows) rows[count] = {error_out[o], o * shape.inputs};
    ++count;
  }
  if (count > kErrorRows || (scores != nullptr && !IsDense(scores))) {
    if (scores == nullptr) {
      NitiDenseBackward(shape, error_out, weights, requantize, error_in);
    } else if (IsDense(scores)) {
      PriotDenseBackward(shape, error_out, weights, *scores, requantize,
                         static_cast<int8_t*>(scratch), nullptr, error_in);
    } else {
      int32_t* sums = static_cast<int32_t*>(scratch);
      PackedSums(shape, error_out, weights, *scores, sums);
      NitiRequantizeTensor(sums, shape.inputs, requantize, error_in);
    }
  } else {
    for (int32_t i = 0; i < shape.inputs; i += 4) {
      const mve_pred16_t inside = vctp32q(static_cast<uint32_t>(shape.inputs - i));
      const int32x4_t sums = ErrorSums(rows, count, weights, scores, i, inside);
      if (FastRounding(requantize.rounding, requantize.shift)) {
        const int32x4_t values =
            ClampVector(RoundTflm(sums, requantize.shift), requantize.low, requantize.high);
        vstrbq_p_s32(error_in + i, values, inside);
        continue;
      }
      int32_t lanes[4];
      vstrwq_s32(lanes, sums);
      for (int32_t k = 0; k < 4 && i + k < shape.inputs; ++k) {
        error_in[i + k] = RequantizeValue(requantize, lanes[k], i + k);
      }
    }
  }
  if (relu_output != nullptr) ReluMask(relu_output, shape.inputs, error_in);
}

void TrainDenseScores(const DenseShape& shape, const int8_t* input, const int8_t* error,
                      const int8_t* weights, const ScoreView& scores, const UpdateParams& params,
                      void*, ScoreCounts* counts) {
  if (!IsDense(&scores)) return UpdatePacked(shape, input, error, weights, scores, params, counts);
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int32_t e = error[o], first = o * shape.inputs;
    if (e == 0) continue;
    const auto products = [&](int32_t i, mve_pred16_t inside) {
      const int32x4_t x = vmulq_n_s32(vldrbq_z_s32(input + i, inside), e);
      return vmulq_s32(vldrbq_z_s32(weights + first + i, inside), x);
    };
    UpdateScores(scores, first, shape.inputs, params, products, counts);
  }
}

void TrainDenseWeights(const DenseShape& shape, const int8_t* input, const int8_t* error,
                       const UpdateParams& params, void*, int8_t* weights) {
  for (int32_t o = 0; o < shape.outputs; ++o) {
    const int32_t e = error[o];
    if (e == 0) continue;
    const auto gradient = [&](int32_t i, mve_pred16_t inside) {
      return vmulq_n_s32(vldrbq_z_s32(input + i, inside), e);
    };
    UpdateWeights(o * shape.inputs, shape.inputs, params, gradient, weights);
  }
}

}  // namespace tflm_train
