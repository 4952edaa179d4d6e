// tflm_train._native.Engine: arrays in and out, checked here; the engine itself trusts sizes.
#include "micro_ops/host/bind_engine.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "micro_ops/host/arrays.h"
#include "micro_ops/host/engine.h"

namespace nb = nanobind;

namespace tflm_train {
namespace {

// Of engines that do not say: TFLM_TRAIN_SIMD of the environment, else the fastest.
std::string& DefaultSimd() {
  static std::string name = [] {
    const char* chosen = std::getenv("TFLM_TRAIN_SIMD");
    return chosen != nullptr && *chosen ? std::string(chosen) : SimdLevels().front();
  }();
  return name;
}

void SetSimd(const std::string& name) {
  FindSimd(name);
  DefaultSimd() = name;
}

nb::dict Describe(const Model& model, int32_t index) {
  const Tensor& tensor = model.tensors[index];
  nb::dict d;
  d["index"] = index;
  d["name"] = tensor.name;
  d["shape"] = nb::tuple(nb::cast(tensor.shape));
  d["dtype"] = TypeName(static_cast<int32_t>(tensor.type));
  d["scale"] = tensor.scale.size() == 1 ? nb::cast(tensor.scale[0]) : nb::cast(tensor.scale);
  d["zero_point"] =
      tensor.zero_point.size() == 1 ? nb::cast(tensor.zero_point[0]) : nb::cast(tensor.zero_point);
  d["constant"] = tensor.constant;
  return d;
}

nb::list DescribeAll(const Model& model, const std::vector<int32_t>& tensors) {
  nb::list list;
  for (int32_t t : tensors) list.append(Describe(model, t));
  return list;
}

struct Outputs {
  std::vector<Fetch> fetches;
  nb::list arrays;
};

Outputs NewOutputs(const Model& model, const std::vector<int32_t>& tensors, int32_t samples) {
  Outputs out;
  for (int32_t t : tensors) {
    int8_t* data;
    out.arrays.append(NewArray<int8_t>(BatchShape(model.tensors[t], samples), &data));
    out.fetches.push_back({t, data});
  }
  return out;
}

nb::object Run(Engine& engine, nb::object x) {
  const Model& model = engine.model();
  FeedArrays feeds;
  if (nb::isinstance<nb::list>(x) || nb::isinstance<nb::tuple>(x)) {
    const size_t count = nb::len(x);
    if (count != model.inputs.size()) {
      throw std::invalid_argument("Expected " + std::to_string(model.inputs.size()) +
                                  " inputs, got " + std::to_string(count));
    }
    for (size_t i = 0; i < count; ++i) feeds.Add(model, model.inputs[i], x[i]);
  } else {
    if (model.inputs.size() != 1) {
      throw std::invalid_argument("Expected a list of " + std::to_string(model.inputs.size()) +
                                  " inputs, got one array");
    }
    feeds.Add(model, model.inputs[0], x);
  }
  Outputs out = NewOutputs(model, model.outputs, feeds.samples());
  {
    nb::gil_scoped_release release;
    engine.Run(0, engine.operators(), feeds.feeds(), out.fetches, feeds.samples());
  }
  if (model.outputs.size() == 1) return out.arrays[0];
  return out.arrays;
}

nb::list RunRange(Engine& engine, int32_t first, int32_t last, nb::dict feeds_in,
                  const std::vector<int32_t>& fetch) {
  FeedArrays feeds(engine.model(), feeds_in);
  for (int32_t t : fetch) CheckActivation(engine, t);
  Outputs out = NewOutputs(engine.model(), fetch, feeds.samples());
  {
    nb::gil_scoped_release release;
    engine.Run(first, last, feeds.feeds(), out.fetches, feeds.samples());
  }
  return out.arrays;
}

nb::dict Dump(Engine& engine, nb::object x) {
  const Model& model = engine.model();
  nb::dict feeds_in, result;
  if (nb::isinstance<nb::list>(x) || nb::isinstance<nb::tuple>(x)) {
    for (size_t i = 0; i < std::min(nb::len(x), model.inputs.size()); ++i) {
      feeds_in[nb::cast(model.inputs[i])] = x[i];
    }
  } else if (!model.inputs.empty()) {
    feeds_in[nb::cast(model.inputs[0])] = x;
  }
  const std::vector<int32_t> all = engine.Activations();
  nb::list arrays = RunRange(engine, 0, engine.operators(), feeds_in, all);
  for (size_t i = 0; i < all.size(); ++i) result[nb::cast(all[i])] = arrays[i];
  return result;
}

template <typename T>
nb::object CopyOut(const Tensor& tensor, const void* data) {
  T* out;
  std::vector<size_t> shape(tensor.shape.begin(), tensor.shape.end());
  auto array = NewArray<T>(shape, &out);
  std::memcpy(out, data, tensor.bytes());
  return nb::cast(array);
}

nb::object ReadTensor(Engine& engine, int32_t index) {
  engine.CheckTensor(index);
  const Tensor& tensor = engine.model().tensors[index];
  if (!tensor.constant) {
    const std::vector<int8_t> values = engine.Preserved(index);
    if (values.empty()) {
      throw std::invalid_argument(
          "Expected a constant or preserve_all=True and a run before, got " +
          engine.model().Describe(index) + ": use dump(x)");
    }
    return CopyOut<int8_t>(tensor, values.data());
  }
  const void* data = engine.Constant(index);
  switch (tensor.type) {
    case TensorType::kInt8:
      return CopyOut<int8_t>(tensor, data);
    case TensorType::kInt32:
      return CopyOut<int32_t>(tensor, data);
    case TensorType::kFloat32:
      return CopyOut<float>(tensor, data);
    case TensorType::kInt64:
      return CopyOut<int64_t>(tensor, data);
    default:
      throw std::invalid_argument("Expected an int8, int32, int64 or float32 tensor, got " +
                                  engine.model().Describe(index));
  }
}

template <typename T>
void WriteTensor(Engine& engine, int32_t index, In<T> values) {
  engine.CheckWritable(index);
  const Tensor& tensor = engine.model().tensors[index];
  std::vector<size_t> shape(values.ndim());
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = values.shape(i);
  const std::vector<size_t> expected(tensor.shape.begin(), tensor.shape.end());
  const TensorType type = sizeof(T) == 1 ? TensorType::kInt8 : TensorType::kInt32;
  if (tensor.type != type || shape != expected) {
    throw std::invalid_argument(
        "Expected " + TypeName(static_cast<int32_t>(tensor.type)) + " " +
        ShapeText(expected, false) + " for " + engine.model().Describe(index) + ", got " +
        TypeName(static_cast<int32_t>(type)) + " " + ShapeText(shape, false));
  }
  nb::gil_scoped_release release;
  engine.WriteConstant(index, values.data());
}

nb::bytes Serialize(Engine& engine) {
  const std::vector<uint8_t> bytes = engine.Serialize();
  return nb::bytes(bytes.data(), bytes.size());
}

nb::list Operators(const Engine& engine) {
  nb::list list;
  for (const Operator& op : engine.model().operators) {
    nb::dict d;
    d["name"] = op.name;
    d["inputs"] = op.inputs;
    d["outputs"] = op.outputs;
    list.append(d);
  }
  return list;
}

}  // namespace

void CheckActivation(const Engine& engine, int32_t tensor) {
  engine.CheckTensor(tensor);
  if (engine.model().tensors[tensor].constant) {
    throw std::invalid_argument("Expected an activation, got a constant: " +
                                engine.model().Describe(tensor));
  }
}

void BindEngine(nb::module_& m) {
  nb::exception<ModelError>(m, "ModelError", PyExc_ValueError);
  m.def("simd_levels", &SimdLevels, "Instruction sets this machine can run, the fastest first.");
  m.def("set_simd", &SetSimd, nb::arg("name"), "Instruction set of engines made from now on.");
  nb::class_<Engine> engine(m, "Engine");
  engine
      .def(
          "__init__",
          [](Engine* self, nb::bytes model, int32_t threads, bool preserve_all,
             std::optional<std::string> simd) {
            new (self) Engine(static_cast<const uint8_t*>(model.data()), model.size(),
                              simd ? *simd : DefaultSimd(), threads, preserve_all);
          },
          nb::arg("model"), nb::arg("threads") = 1, nb::arg("preserve_all") = false,
          nb::arg("simd") = nb::none())
      .def_prop_ro("inputs",
                   [](const Engine& e) { return DescribeAll(e.model(), e.model().inputs); })
      .def_prop_ro("outputs",
                   [](const Engine& e) { return DescribeAll(e.model(), e.model().outputs); })
      .def_prop_ro("num_ops", &Engine::operators)
      .def_prop_ro("num_tensors", [](const Engine& e) { return e.model().tensors.size(); })
      .def_prop_ro("ops", &Operators)
      .def_prop_ro("arena_bytes", &Engine::arena_bytes)
      .def_prop_ro("simd", &Engine::simd)
      .def_prop_ro("threads", &Engine::threads)
      .def(
          "tensor",
          [](const Engine& e, int32_t index) {
            e.CheckTensor(index);
            return Describe(e.model(), index);
          },
          nb::arg("index"))
      .def("run", &Run, nb::arg("x"))
      .def("run_range", &RunRange, nb::arg("first_op"), nb::arg("last_op"), nb::arg("feeds"),
           nb::arg("fetch"))
      .def("live_tensors", &Engine::LiveTensors, nb::arg("op"))
      .def("read_tensor", &ReadTensor, nb::arg("index"))
      .def("write_tensor", &WriteTensor<int8_t>, nb::arg("index"), nb::arg("values").noconvert())
      .def("write_tensor", &WriteTensor<int32_t>, nb::arg("index"), nb::arg("values").noconvert())
      .def("dump", &Dump, nb::arg("x"))
      .def("serialize", &Serialize);
  BindZoEngine(engine);
}

}  // namespace tflm_train
