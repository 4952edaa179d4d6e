// Python names of the device kernels of micro_ops/core, one layer at a time: what tests compare
// with the NumPy reference and what golden vectors for firmware are made with.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "micro_ops/core/niti_loss.h"
#include "micro_ops/core/priot_layers.h"
#include "micro_ops/host/arrays.h"
#include "micro_ops/host/priot_spec.h"

namespace nb = nanobind;

namespace tflm_train {
namespace {

struct Layer {
  std::string kind;
  ConvShape conv{};
  DenseShape dense{};
  int32_t in_size, out_size, rows, row_size;

  Layer(const std::string& k, const std::vector<int32_t>& v) : kind(k) {
    if (kind == "dense") {
      PriotNeed(v.size() == 2, "Expected inputs and outputs");
      dense = {v[0], v[1]};
      in_size = row_size = v[0];
      out_size = rows = v[1];
      return;
    }
    PriotNeed((kind == "conv" || kind == "depthwise") && v.size() == 12,
              "Expected conv or depthwise with 12 sizes, or dense with 2");
    conv = {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]};
    in_size = v[0] * v[1] * v[2];
    out_size = v[3] * v[4] * v[5];
    rows = kind == "conv" ? conv.out_channels : 1;
    row_size = kind == "conv" ? ConvRowSize(conv) : DepthwiseWeightSize(conv);
  }
};

// Scores in the storage that `scored` tells: none, bytes of a bitmask, or counts and places.
struct Scores {
  ScoreView view{};
  std::vector<int8_t> values;

  Scores(const Layer& layer, int32_t storage, const In<int8_t>& scores, const In<uint8_t>& scored,
         const In<uint16_t>& places, int32_t threshold)
      : values(scores.data(), scores.data() + scores.size()) {
    const size_t size = static_cast<size_t>(layer.rows) * layer.row_size;
    PriotNeed(storage >= 0 && storage <= 2, "Expected a storage of 0 to 2");
    view.storage = static_cast<ScoreStorage>(storage);
    view.scores = values.data();
    view.threshold = threshold;
    size_t count = size;
    if (storage == 1) {
      PriotNeed(scored.size() == (size + 7) / 8, "Expected one bit per edge");
      view.scored = scored.data();
      count = 0;
      for (size_t i = 0; i < size; ++i) count += (scored.data()[i / 8] >> (i % 8)) & 1;
    } else if (storage == 2) {
      PriotNeed(places.size() >= static_cast<size_t>(layer.rows), "Expected a count per row");
      view.row_counts = places.data();
      view.indices = places.data() + layer.rows;
      count = 0;
      for (int32_t r = 0; r < layer.rows; ++r) count += places.data()[r];
      PriotNeed(places.size() == layer.rows + count, "Expected as many places as the rows count");
      for (size_t i = layer.rows; i < places.size(); ++i) {
        PriotNeed(places.data()[i] < layer.row_size, "Expected places inside a row");
      }
    }
    PriotNeed(values.size() == count, "Expected " + std::to_string(count) + " scores, got " +
                                          std::to_string(values.size()));
  }
};

Rounding Mode(int32_t rounding) {
  PriotNeed(rounding >= 0 && rounding < kRoundingModes, "Expected a rounding mode of 0 to 4");
  return static_cast<Rounding>(rounding);
}

void NeedSize(const char* what, size_t expected, size_t got) {
  PriotNeed(expected == got, std::string("Expected ") + std::to_string(expected) + " " + what +
                                 ", got " + std::to_string(got));
}

Out<int8_t> Forward(const std::string& kind, const std::vector<int32_t>& sizes, In<int8_t> x,
                    In<int8_t> weights, In<int32_t> bias, bool masked, int32_t storage,
                    In<int8_t> scores, In<uint8_t> scored, In<uint16_t> places, int32_t threshold,
                    int32_t shift, int32_t rounding, int32_t low, uint32_t key) {
  const Layer layer(kind, sizes);
  NeedSize("inputs", layer.in_size, x.size());
  NeedSize("weights", static_cast<size_t>(layer.rows) * layer.row_size, weights.size());
  PriotNeed(shift >= 0 && shift <= kMaxShift, "Expected a shift of 0 to 31");
  const Requantize params = {shift, Mode(rounding), low, 127, key};
  const int32_t* b = bias.size() == 0 ? nullptr : bias.data();
  int8_t* out;
  Out<int8_t> result = NewArray<int8_t>({static_cast<size_t>(layer.out_size)}, &out);
  if (!masked) {
    if (kind == "conv") NitiConvForward(layer.conv, x.data(), weights.data(), b, params, out);
    if (kind == "depthwise") {
      NitiDepthwiseForward(layer.conv, x.data(), weights.data(), b, params, out);
    }
    if (kind == "dense") NitiDenseForward(layer.dense, x.data(), weights.data(), b, params, out);
    return result;
  }
  const Scores s(layer, storage, scores, scored, places, threshold);
  std::vector<int8_t> row(layer.row_size);
  if (kind == "conv") {
    PriotConvForward(layer.conv, x.data(), weights.data(), b, s.view, params, row.data(), out);
  } else if (kind == "depthwise") {
    PriotDepthwiseForward(layer.conv, x.data(), weights.data(), b, s.view, params, row.data(), out);
  } else {
    PriotDenseForward(layer.dense, x.data(), weights.data(), b, s.view, params, row.data(), out);
  }
  return result;
}

Out<int8_t> Backward(const std::string& kind, const std::vector<int32_t>& sizes, In<int8_t> error,
                     In<int8_t> weights, bool masked, int32_t storage, In<int8_t> scores,
                     In<uint8_t> scored, In<uint16_t> places, int32_t threshold, int32_t shift,
                     int32_t rounding, uint32_t key) {
  const Layer layer(kind, sizes);
  NeedSize("errors", layer.out_size, error.size());
  NeedSize("weights", static_cast<size_t>(layer.rows) * layer.row_size, weights.size());
  PriotNeed(shift >= 0 && shift <= kMaxShift, "Expected a shift of 0 to 31");
  const Requantize params = {shift, Mode(rounding), -127, 127, key};
  int8_t* out;
  Out<int8_t> result = NewArray<int8_t>({static_cast<size_t>(layer.in_size)}, &out);
  const int8_t *e = error.data(), *w = weights.data();
  if (!masked) {
    std::vector<int32_t> sums(kind == "conv" ? layer.conv.in_channels : 0);
    if (kind == "conv") NitiConvBackward(layer.conv, e, w, params, sums.data(), out);
    if (kind == "depthwise") NitiDepthwiseBackward(layer.conv, e, w, params, out);
    if (kind == "dense") NitiDenseBackward(layer.dense, e, w, params, out);
    return result;
  }
  const Scores s(layer, storage, scores, scored, places, threshold);
  std::vector<int8_t> row(layer.row_size);
  if (kind == "conv") {
    std::vector<int32_t> sums(PriotConvBackwardWords(layer.conv, s.view.storage));
    PriotConvBackward(layer.conv, e, w, s.view, params, row.data(), sums.data(), out);
  } else if (kind == "depthwise") {
    PriotDepthwiseBackward(layer.conv, e, w, s.view, params, row.data(), out);
  } else {
    std::vector<int32_t> sums(PriotDenseBackwardWords(layer.dense, s.view.storage));
    PriotDenseBackward(layer.dense, e, w, s.view, params, row.data(), sums.data(), out);
  }
  return result;
}

// The new weights (not masked) or the new scores in their storage, and the counts.
nb::tuple Update(const std::string& kind, const std::vector<int32_t>& sizes, In<int8_t> x,
                 In<int8_t> error, In<int8_t> weights, bool masked, int32_t storage,
                 In<int8_t> scores, In<uint8_t> scored, In<uint16_t> places, int32_t threshold,
                 int32_t shift, int32_t rounding, uint32_t key) {
  const Layer layer(kind, sizes);
  NeedSize("inputs", layer.in_size, x.size());
  NeedSize("errors", layer.out_size, error.size());
  NeedSize("weights", static_cast<size_t>(layer.rows) * layer.row_size, weights.size());
  PriotNeed(shift >= 0 && shift <= kMaxShift, "Expected a shift of 0 to 31");
  const UpdateParams params = {shift, Mode(rounding), key};
  std::vector<int32_t> row(layer.row_size);
  ScoreCounts counts{};
  std::vector<int8_t> after(weights.data(), weights.data() + weights.size());
  if (!masked) {
    if (kind == "conv") {
      NitiConvUpdate(layer.conv, x.data(), error.data(), params, row.data(), after.data());
    } else if (kind == "depthwise") {
      NitiDepthwiseUpdate(layer.conv, x.data(), error.data(), params, row.data(), after.data());
    } else {
      NitiDenseUpdate(layer.dense, x.data(), error.data(), params, after.data());
    }
  } else {
    Scores s(layer, storage, scores, scored, places, threshold);
    if (kind == "conv") {
      PriotConvUpdate(layer.conv, x.data(), error.data(), weights.data(), s.view, params,
                      row.data(), &counts);
    } else if (kind == "depthwise") {
      PriotDepthwiseUpdate(layer.conv, x.data(), error.data(), weights.data(), s.view, params,
                           row.data(), &counts);
    } else {
      PriotDenseUpdate(layer.dense, x.data(), error.data(), weights.data(), s.view, params,
                       &counts);
    }
    after = s.values;
  }
  int8_t* out;
  Out<int8_t> result = NewArray<int8_t>({after.size()}, &out);
  std::memcpy(out, after.data(), after.size());
  return nb::make_tuple(result, counts.pruned, counts.restored, counts.at_limit);
}

uint32_t GradientMax(const std::string& kind, const std::vector<int32_t>& sizes, In<int8_t> x,
                     In<int8_t> error) {
  const Layer layer(kind, sizes);
  NeedSize("inputs", layer.in_size, x.size());
  NeedSize("errors", layer.out_size, error.size());
  std::vector<int32_t> row(layer.row_size);
  if (kind == "conv") return NitiConvGradientMax(layer.conv, x.data(), error.data(), row.data());
  if (kind == "depthwise") {
    return NitiDepthwiseGradientMax(layer.conv, x.data(), error.data(), row.data());
  }
  return NitiDenseGradientMax(layer.dense, x.data(), error.data());
}

}  // namespace

void BindPriotCore(nb::module_& m) {
  m.def("priot_round_shift", [](In<int32_t> values, int32_t shift, int32_t mode, uint32_t key) {
    PriotNeed(shift >= 0 && shift <= kMaxShift, "Expected a shift of 0 to 31");
    int32_t* out;
    Out<int32_t> result = NewArray<int32_t>({values.size()}, &out);
    for (size_t i = 0; i < values.size(); ++i) {
      out[i] =
          RoundShift(values.data()[i], shift, Mode(mode), RngWord(key, static_cast<uint32_t>(i)));
    }
    return result;
  });
  m.def("priot_saturating_product", &SaturatingProduct);
  m.def("priot_bit_length", &BitLength);
  m.def("priot_cross_entropy_error", [](In<int8_t> logits, int32_t exponent, int32_t label) {
    const int32_t classes = static_cast<int32_t>(logits.size());
    PriotNeed(classes > 0 && label >= 0 && label < classes, "Expected a label of these logits");
    std::vector<int32_t> scratch(classes);
    int8_t* out;
    Out<int8_t> result = NewArray<int8_t>({logits.size()}, &out);
    const bool any =
        NitiCrossEntropyError(logits.data(), classes, exponent, label, scratch.data(), out);
    return nb::make_tuple(result, any);
  });
  m.def("priot_forward", Forward);
  m.def("priot_backward", Backward);
  m.def("priot_update", Update);
  m.def("priot_gradient_max", GradientMax);
}

}  // namespace tflm_train
