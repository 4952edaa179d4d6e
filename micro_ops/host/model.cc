#include "micro_ops/host/model.h"

#include <algorithm>
#include <cmath>

#include "micro_ops/host/model_options.h"

namespace tflm_train {
namespace {

using flatbuffer::Bytes;
using flatbuffer::Table;
using flatbuffer::Vector;

// Field numbers of the TFLite schema, table by table.
namespace model_field {
enum { kOperatorCodes = 1, kSubgraphs = 2, kBuffers = 4 };
}
namespace code_field {
enum { kDeprecatedBuiltin = 0, kCustomCode = 1, kBuiltin = 3 };
}
namespace graph_field {
enum { kTensors = 0, kInputs = 1, kOutputs = 2, kOperators = 3 };
}
namespace tensor_field {
enum {
  kShape = 0,
  kType = 1,
  kBuffer = 2,
  kName = 3,
  kQuantization = 4,
  kVariable = 5,
  kSparsity = 6
};
}
namespace quantization_field {
enum { kScale = 2, kZeroPoint = 3, kDimension = 6 };
}
namespace operator_field {
enum { kCode = 0, kInputs = 1, kOutputs = 2, kOptionsType = 3, kOptions = 4 };
}
namespace buffer_field {
enum { kData = 0, kOffset = 1, kSize = 2 };
}

constexpr int64_t kMaxElements = int64_t{1} << 28;
constexpr int32_t kMaxName = 200;

// Vectors of a damaged file may all be the same large one: what is copied out of the file is
// limited by the file's own size.
class Budget {
 public:
  explicit Budget(size_t file_size) : left_(8 * file_size + (1u << 20)) {}
  void Take(size_t bytes) {
    if (bytes > left_) {
      throw ModelError(
          "Expected tables that do not repeat themselves, got a file that unfolds to "
          "more than eight times its size: damaged");
    }
    left_ -= bytes;
  }

 private:
  size_t left_;
};

template <typename T>
std::vector<T> Copy(const Vector<T>& v, Budget* budget) {
  budget->Take(v.size() * sizeof(T));
  std::vector<T> result(v.size());
  for (size_t i = 0; i < v.size(); ++i) result[i] = v[i];
  return result;
}

std::string Printable(std::string_view text) {
  std::string result(text.substr(0, kMaxName));
  for (char& c : result) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return result;
}

std::vector<Buffer> ReadBuffers(const Table& root, size_t file_size) {
  std::vector<Buffer> buffers;
  const size_t count = root.ChildCount(model_field::kBuffers);
  for (size_t i = 0; i < count; ++i) {
    const Table table = root.Child(model_field::kBuffers, i);
    if (table.Scalar<uint64_t>(buffer_field::kOffset, 0) > 1 ||
        table.Scalar<uint64_t>(buffer_field::kSize, 0) > 1) {
      throw ModelError("Expected weights inside the flatbuffer, got buffer " + std::to_string(i) +
                       " stored behind it: models above 2 GB are not supported");
    }
    const Vector<uint8_t> data = table.Values<uint8_t>(buffer_field::kData);
    buffers.push_back({data.begin(), data.size()});
  }
  // Overlapping buffers would change one weight by writing another.
  std::vector<Buffer> sorted;
  for (const Buffer& b : buffers) {
    if (b.size) sorted.push_back(b);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Buffer& a, const Buffer& b) { return a.position < b.position; });
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i - 1].position + sorted[i - 1].size > sorted[i].position) {
      throw ModelError("Expected buffers apart from each other, got two that overlap at byte " +
                       std::to_string(sorted[i].position) + " of " + std::to_string(file_size) +
                       ": the file is damaged");
    }
  }
  return buffers;
}

void ReadQuantization(const Table& table, Budget* budget, const std::string& where,
                      Tensor* tensor) {
  if (!table.present()) return;
  tensor->scale = Copy(table.Values<float>(quantization_field::kScale), budget);
  tensor->zero_point = Copy(table.Values<int64_t>(quantization_field::kZeroPoint), budget);
  tensor->quantized_dimension = table.Scalar<int32_t>(quantization_field::kDimension, 0);
  if (tensor->scale.empty()) {
    tensor->zero_point.clear();
    return;
  }
  if (tensor->zero_point.size() == 1 && tensor->scale.size() > 1) {
    tensor->zero_point.assign(tensor->scale.size(), tensor->zero_point[0]);
  }
  if (tensor->zero_point.size() != tensor->scale.size()) {
    throw ModelError("Expected " + std::to_string(tensor->scale.size()) + " zero points, got " +
                     std::to_string(tensor->zero_point.size()) + ": " + where);
  }
  for (float s : tensor->scale) {
    if (!std::isfinite(s) || s < 0.0f) {
      throw ModelError("Expected finite scales of 0 or more, got " + std::to_string(s) + ": " +
                       where);
    }
  }
  const int32_t dimension = tensor->quantized_dimension;
  if (tensor->scale.size() > 1 &&
      (dimension < 0 || dimension >= static_cast<int32_t>(tensor->shape.size()) ||
       tensor->shape[dimension] != static_cast<int64_t>(tensor->scale.size()))) {
    throw ModelError("Expected one scale per entry of dimension " + std::to_string(dimension) +
                     ", got " + std::to_string(tensor->scale.size()) + " scales: " + where);
  }
}

Tensor ReadTensor(const Table& table, const std::vector<Buffer>& buffers, size_t index,
                  Budget* budget) {
  Tensor tensor;
  budget->Take(sizeof(Tensor));
  tensor.name = Printable(table.String(tensor_field::kName));
  const std::string where = "tensor " + std::to_string(index) + " '" + tensor.name + "'";
  tensor.type = static_cast<TensorType>(table.Scalar<int8_t>(tensor_field::kType, 0));
  tensor.shape = Copy(table.Values<int32_t>(tensor_field::kShape), budget);
  for (int32_t d : tensor.shape) {
    if (d < 0)
      throw ModelError("Expected sizes of 0 or more, got " + std::to_string(d) + ": " + where);
    tensor.elements *= d;
    if (tensor.elements > kMaxElements) {
      throw ModelError("Expected at most 2^28 elements: " + where);
    }
  }
  const uint32_t buffer = table.Scalar<uint32_t>(tensor_field::kBuffer, 0);
  if (buffer >= buffers.size()) {
    throw ModelError("Expected a buffer below " + std::to_string(buffers.size()) + ", got " +
                     std::to_string(buffer) + ": " + where);
  }
  tensor.buffer = static_cast<int32_t>(buffer);
  tensor.constant = buffers[buffer].size != 0;
  if (table.Scalar<uint8_t>(tensor_field::kVariable, 0)) {
    throw ModelError("Expected no variable tensors: " + where);
  }
  if (table.Has(tensor_field::kSparsity)) {
    throw ModelError("Expected dense weights, got a sparse encoding: " + where);
  }
  if (tensor.constant && ItemSize(tensor.type) != 0 && buffers[buffer].size != tensor.bytes()) {
    throw ModelError("Expected " + std::to_string(tensor.bytes()) + " bytes, got " +
                     std::to_string(buffers[buffer].size) + ": " + where +
                     ": truncated or damaged");
  }
  ReadQuantization(table.Child(tensor_field::kQuantization), budget, where, &tensor);
  return tensor;
}

Operator ReadOperator(const Table& root, const Table& table, size_t index, Budget* budget) {
  budget->Take(sizeof(Operator));
  const uint32_t code_index = table.Scalar<uint32_t>(operator_field::kCode, 0);
  const size_t codes = root.ChildCount(model_field::kOperatorCodes);
  if (code_index >= codes) {
    throw ModelError("Expected an operator code below " + std::to_string(codes) + ", got " +
                     std::to_string(code_index) + " at operator " + std::to_string(index) +
                     ": the file is damaged");
  }
  const Table code = root.Child(model_field::kOperatorCodes, code_index);
  Operator op;
  op.code =
      static_cast<Builtin>(std::max<int32_t>(code.Scalar<int8_t>(code_field::kDeprecatedBuiltin, 0),
                                             code.Scalar<int32_t>(code_field::kBuiltin, 0)));
  op.name = op.code == Builtin::kCustom ? Printable(code.String(code_field::kCustomCode))
                                        : BuiltinName(static_cast<int32_t>(op.code));
  op.inputs = Copy(table.Values<int32_t>(operator_field::kInputs), budget);
  op.outputs = Copy(table.Values<int32_t>(operator_field::kOutputs), budget);
  op.options = ReadOptions(op, table.Child(operator_field::kOptions),
                           table.Scalar<uint8_t>(operator_field::kOptionsType, 0), index);
  return op;
}

void CheckIndices(const std::vector<int32_t>& indices, size_t tensors, bool optional,
                  const std::string& where) {
  for (int32_t i : indices) {
    if (i < (optional ? -1 : 0) || i >= static_cast<int64_t>(tensors)) {
      throw ModelError("Expected tensor indices below " + std::to_string(tensors) + ", got " +
                       std::to_string(i) + " as " + where + ": the file is damaged");
    }
  }
}

}  // namespace

size_t ItemSize(TensorType type) {
  switch (type) {
    case TensorType::kFloat32:
    case TensorType::kInt32:
      return 4;
    case TensorType::kInt64:
      return 8;
    case TensorType::kInt16:
      return 2;
    case TensorType::kUInt8:
    case TensorType::kBool:
    case TensorType::kInt8:
      return 1;
  }
  return 0;
}

std::string TypeName(int32_t type) {
  static const char* const kNames[] = {"float32", "float16",    "int32",  "uint8",     "int64",
                                       "string",  "bool",       "int16",  "complex64", "int8",
                                       "float64", "complex128", "uint64", "resource",  "variant",
                                       "uint32",  "uint16",     "int4",   "bfloat16"};
  const int32_t count = static_cast<int32_t>(sizeof(kNames) / sizeof(kNames[0]));
  return type >= 0 && type < count ? kNames[type] : "type " + std::to_string(type);
}

size_t Tensor::bytes() const { return static_cast<size_t>(elements) * ItemSize(type); }

std::string Model::Describe(int32_t tensor) const {
  return "tensor " + std::to_string(tensor) + " '" + tensors[tensor].name + "'";
}

Model ReadModel(const uint8_t* data, size_t size) {
  if (size < 8 || std::memcmp(data + 4, "TFL3", 4) != 0) {
    throw ModelError("Expected a TFLite file (bytes 4 to 8 are 'TFL3'), got " +
                     std::to_string(size) + " bytes: not a TFLite file (no TFL3 identifier)");
  }
  const Bytes bytes = {data, size};
  Budget budget(size);
  const Table root = Table::Root(bytes);
  if (root.ChildCount(model_field::kSubgraphs) == 0) {
    throw ModelError("Expected at least one sub-graph, got none: the file is damaged");
  }
  const Table graph = root.Child(model_field::kSubgraphs, 0);
  Model model;
  model.buffers = ReadBuffers(root, size);
  const size_t tensors = graph.ChildCount(graph_field::kTensors);
  for (size_t i = 0; i < tensors; ++i) {
    model.tensors.push_back(
        ReadTensor(graph.Child(graph_field::kTensors, i), model.buffers, i, &budget));
  }
  model.inputs = Copy(graph.Values<int32_t>(graph_field::kInputs), &budget);
  model.outputs = Copy(graph.Values<int32_t>(graph_field::kOutputs), &budget);
  CheckIndices(model.inputs, tensors, false, "graph input");
  CheckIndices(model.outputs, tensors, false, "graph output");
  const size_t operators = graph.ChildCount(graph_field::kOperators);
  for (size_t i = 0; i < operators; ++i) {
    Operator op = ReadOperator(root, graph.Child(graph_field::kOperators, i), i, &budget);
    const std::string where = " of operator " + std::to_string(i) + " " + op.name;
    CheckIndices(op.inputs, tensors, true, "input" + where);
    CheckIndices(op.outputs, tensors, false, "output" + where);
    model.operators.push_back(std::move(op));
  }
  return model;
}

}  // namespace tflm_train
