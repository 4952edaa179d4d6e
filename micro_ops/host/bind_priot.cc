// Python names of the integer-only trainer.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "micro_ops/host/arrays.h"
#include "micro_ops/host/priot_net.h"
#include "micro_ops/host/priot_spec.h"

namespace nb = nanobind;

namespace tflm_train {
namespace {

PriotLayer& LayerAt(PriotNet& net, size_t index) {
  PriotNeed(index < net.layers().size(), "Expected a layer below " +
                                             std::to_string(net.layers().size()) + ", got " +
                                             std::to_string(index));
  return net.layers()[index];
}

PriotLayer& WeightsAt(PriotNet& net, size_t index, size_t size) {
  PriotLayer& layer = LayerAt(net, index);
  PriotNeed(layer.has_weights() && size == static_cast<size_t>(layer.weight_size()),
            "Expected " + std::to_string(layer.weight_size()) + " edges for layer " +
                std::to_string(index) + ", got " + std::to_string(size));
  return layer;
}

template <typename T>
Out<T> CopyOut(const T* from, size_t size) {
  T* data;
  Out<T> result = NewArray<T>({size}, &data);
  std::memcpy(data, from, size * sizeof(T));
  return result;
}

void CheckSamples(const PriotNet& net, const In<int8_t>& x, const In<int32_t>* y) {
  PriotNeed(x.ndim() >= 1 && x.size() == x.shape(0) * net.input_size(),
            "Expected samples of " + std::to_string(net.input_size()) + " values, got " +
                std::to_string(x.size()) + " values in all");
  if (y == nullptr) return;
  PriotNeed(y->size() == x.shape(0),
            "Expected " + std::to_string(x.shape(0)) + " labels, got " + std::to_string(y->size()));
  for (size_t i = 0; i < y->size(); ++i) {
    PriotNeed(y->data()[i] >= 0 && y->data()[i] < net.classes(),
              "Expected labels below " + std::to_string(net.classes()) + ", got " +
                  std::to_string(y->data()[i]) + " at sample " + std::to_string(i));
  }
}

nb::dict ToDict(const EpochResult& result) {
  nb::dict out;
  out["samples"] = result.samples;
  out["correct"] = result.correct;
  out["zero_error"] = result.zero_error;
  out["loss"] = result.samples > 0 ? result.loss / static_cast<double>(result.samples) : 0.0;
  out["predicted"] = result.predicted;
  return out;
}

nb::dict Statistics(PriotNet& net, size_t index) {
  PriotLayer& layer = LayerAt(net, index);
  int64_t pruned = 0, scored = 0, at_limit = 0;
  for (int32_t i = 0; i < layer.weight_size(); ++i) {
    const int8_t w = layer.weights[i];
    at_limit += w == 127 || w == -127 ? 1 : 0;
    if (!layer.has_scores || (!layer.scored.empty() && layer.scored[i] == 0)) continue;
    ++scored;
    pruned += layer.scores[i] < layer.threshold ? 1 : 0;
  }
  nb::dict out;
  out["edges"] = layer.weight_size();
  out["scored"] = scored;
  out["pruned"] = pruned;
  out["weights_at_limit"] = at_limit;
  out["crossed_down"] = layer.counts.pruned;
  out["crossed_up"] = layer.counts.restored;
  out["updates"] = layer.counts.changed;
  out["updates_saturated"] = layer.counts.saturated;
  out["updates_at_limit"] = layer.counts.at_limit;
  out["outputs_seen"] = layer.outputs_seen;
  out["outputs_saturated"] = layer.outputs_saturated;
  out["errors_seen"] = layer.errors_seen;
  out["errors_saturated"] = layer.errors_saturated;
  return out;
}

Rounding RoundingFrom(int32_t value) {
  PriotNeed(value >= 0 && value < kRoundingModes,
            "Expected a rounding mode of 0 to 4, got " + std::to_string(value));
  return static_cast<Rounding>(value);
}

void Configure(PriotNet& net, const nb::dict& options) {
  PriotSettings& s = net.settings;
  for (auto [key, value] : options) {
    const std::string name = nb::cast<std::string>(key);
    if (name == "forward")
      s.forward = RoundingFrom(nb::cast<int32_t>(value));
    else if (name == "backward")
      s.backward = RoundingFrom(nb::cast<int32_t>(value));
    else if (name == "update")
      s.update = RoundingFrom(nb::cast<int32_t>(value));
    else if (name == "masked_backward")
      s.masked_backward = nb::cast<bool>(value);
    else if (name == "dynamic_forward")
      s.dynamic_forward = nb::cast<bool>(value);
    else if (name == "dynamic_backward")
      s.dynamic_backward = nb::cast<bool>(value);
    else if (name == "dynamic_update")
      s.dynamic_update = nb::cast<bool>(value);
    else if (name == "mu")
      s.mu = nb::cast<int32_t>(value);
    else if (name == "input_exponent")
      s.input_exponent = nb::cast<int32_t>(value);
    else if (name == "kept_permille")
      s.kept_permille = nb::cast<int32_t>(value);
    else if (name == "average_every")
      s.average_every = nb::cast<int32_t>(value);
    else if (name == "average_shift")
      s.average_shift = nb::cast<int32_t>(value);
    else if (name == "seed")
      s.seed = nb::cast<uint32_t>(value);
    else
      PriotNeed(false, "Expected a known setting, got " + name);
  }
}

void SetShifts(PriotNet& net, size_t index, int32_t weight_exponent, int32_t forward,
               int32_t backward, int32_t update) {
  PriotLayer& layer = LayerAt(net, index);
  for (int32_t shift : {forward, backward, update}) {
    PriotNeed(shift >= 0 && shift <= kMaxShift,
              "Expected shifts of 0 to 31, got " + std::to_string(shift));
  }
  layer.weight_exponent = weight_exponent;
  layer.forward_shift = forward;
  layer.backward_shift = backward;
  layer.update_shift = update;
}

void SetWeights(PriotNet& net, size_t index, In<int8_t> weights) {
  PriotLayer& layer = WeightsAt(net, index, weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    PriotNeed(weights.data()[i] >= -127, "Expected weights of -127 to 127, got -128");
  }
  std::memcpy(layer.weights.data(), weights.data(), weights.size());
  net.Refresh(&layer);
}

void SetScores(PriotNet& net, size_t index, In<int8_t> scores, In<uint8_t> scored,
               int32_t threshold) {
  PriotLayer& layer = WeightsAt(net, index, scores.size());
  PriotNeed(scored.size() == 0 || scored.size() == scores.size(),
            "Expected one scored flag per edge, or none, got " + std::to_string(scored.size()));
  PriotNeed(threshold >= -128 && threshold <= 127,
            "Expected a threshold of -128 to 127, got " + std::to_string(threshold));
  const size_t size = scores.size();
  layer.has_scores = true;
  layer.threshold = threshold;
  layer.scores.assign(size + kSlack, 0);
  std::memcpy(layer.scores.data(), scores.data(), size);
  layer.scored.clear();
  if (scored.size() != 0) {
    layer.scored.assign(size + kSlack, 0);
    for (size_t i = 0; i < size; ++i) layer.scored[i] = scored.data()[i] != 0 ? 0xff : 0;
  }
  layer.average.resize(size);
  for (size_t i = 0; i < size; ++i) {
    layer.average[i] = static_cast<int16_t>(scores.data()[i] * 256);
  }
  net.Refresh(&layer);
}

}  // namespace

void BindPriotCore(nb::module_& m);

void BindPriot(nb::module_& m) {
  BindPriotCore(m);
  nb::class_<PriotNet>(m, "PriotNet")
      .def(
          "__init__",
          [](PriotNet* self, const std::vector<PriotSpec>& specs, bool portable) {
            std::vector<PriotLayer> layers;
            for (const PriotSpec& spec : specs) layers.push_back(MakePriotLayer(spec));
            new (self) PriotNet(std::move(layers), portable);
          },
          nb::arg("layers"), nb::arg("portable") = false)
      .def("configure", Configure)
      .def("set_shifts", SetShifts)
      .def("set_weights", SetWeights)
      .def("set_scores", SetScores)
      .def("set_bias",
           [](PriotNet& net, size_t i, In<int32_t> bias) {
             PriotLayer& layer = LayerAt(net, i);
             const int32_t channels =
                 layer.kind == LayerKind::kDense ? layer.dense.outputs : layer.conv.out_channels;
             PriotNeed(layer.has_weights() && bias.size() == static_cast<size_t>(channels),
                       "Expected " + std::to_string(channels) + " biases, got " +
                           std::to_string(bias.size()));
             layer.bias.assign(bias.data(), bias.data() + bias.size());
             layer.bias.resize(bias.size() + kSlack, 0);
           })
      .def("get_weights",
           [](PriotNet& net, size_t i) {
             PriotLayer& layer = LayerAt(net, i);
             return CopyOut(layer.weights.data(), layer.weight_size());
           })
      .def("get_scores",
           [](PriotNet& net, size_t i) {
             PriotLayer& layer = LayerAt(net, i);
             return CopyOut(layer.scores.data(), layer.has_scores ? layer.weight_size() : 0);
           })
      .def("get_average",
           [](PriotNet& net, size_t i) {
             PriotLayer& layer = LayerAt(net, i);
             return CopyOut(layer.average.data(), layer.average.size());
           })
      .def("set_average",
           [](PriotNet& net, size_t i, In<int16_t> average) {
             PriotLayer& layer = WeightsAt(net, i, average.size());
             layer.average.assign(average.data(), average.data() + average.size());
           })
      .def("get_effective",
           [](PriotNet& net, size_t i) {
             PriotLayer& layer = LayerAt(net, i);
             return CopyOut(layer.effective(), layer.weight_size());
           })
      .def("threshold", [](PriotNet& net, size_t i) { return LayerAt(net, i).threshold; })
      .def("output",
           [](PriotNet& net, size_t i) {
             return CopyOut(LayerAt(net, i).output.data(), LayerAt(net, i).out_size);
           })
      .def("error",
           [](PriotNet& net, size_t i) {
             return CopyOut(LayerAt(net, i).error.data(), LayerAt(net, i).out_size);
           })
      .def("histogram",
           [](PriotNet& net, size_t i, int kind) {
             PriotNeed(kind >= 0 && kind < kShiftKinds, "Expected a shift kind of 0 to 2");
             return CopyOut(LayerAt(net, i).histogram[kind].data(), 33);
           })
      .def("statistics", Statistics)
      .def("reset_statistics", &PriotNet::ResetStatistics)
      .def("predict",
           [](PriotNet& net, In<int8_t> x) {
             CheckSamples(net, x, nullptr);
             int8_t* data;
             Out<int8_t> out =
                 NewArray<int8_t>({x.shape(0), static_cast<size_t>(net.classes())}, &data);
             nb::gil_scoped_release release;
             net.Predict(x.data(), static_cast<int64_t>(x.shape(0)), data);
             return out;
           })
      .def(
          "evaluate",
          [](PriotNet& net, In<int8_t> x, In<int32_t> y, bool averaged) {
            CheckSamples(net, x, &y);
            EpochResult result;
            {
              nb::gil_scoped_release release;
              result = net.Evaluate(x.data(), y.data(), static_cast<int64_t>(y.size()), averaged);
            }
            return ToDict(result);
          },
          nb::arg("x"), nb::arg("y"), nb::arg("averaged") = false)
      .def(
          "train",
          [](PriotNet& net, In<int8_t> x, In<int32_t> y, In<int32_t> order, int32_t batch) {
            CheckSamples(net, x, &y);
            PriotNeed(batch >= 1, "Expected a batch of 1 or more, got " + std::to_string(batch));
            for (size_t i = 0; i < order.size(); ++i) {
              PriotNeed(order.data()[i] >= 0 && static_cast<size_t>(order.data()[i]) < y.size(),
                        "Expected sample numbers below " + std::to_string(y.size()));
            }
            EpochResult result;
            {
              nb::gil_scoped_release release;
              result = net.Train(x.data(), y.data(), order.data(),
                                 static_cast<int64_t>(order.size()), batch);
            }
            return ToDict(result);
          },
          nb::arg("x"), nb::arg("y"), nb::arg("order"), nb::arg("batch") = 1)
      .def("calibrate",
           [](PriotNet& net, In<int8_t> x, In<int32_t> y) {
             CheckSamples(net, x, &y);
             EpochResult result;
             {
               nb::gil_scoped_release release;
               result = net.Calibrate(x.data(), y.data(), static_cast<int64_t>(y.size()));
             }
             return ToDict(result);
           })
      .def_rw("step", &PriotNet::step)
      .def_prop_ro("logits_exponent", &PriotNet::LogitsExponent)
      .def_prop_ro("kernels", &PriotNet::kernels);
}

}  // namespace tflm_train
