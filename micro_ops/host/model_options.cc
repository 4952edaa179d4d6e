#include "micro_ops/host/model_options.h"

namespace tflm_train {
namespace {

using flatbuffer::Table;

// Schema value of the builtin_options union for each kind of option table the engine reads.
enum class OptionsType : uint8_t {
  kNone = 0,
  kConv2D = 1,
  kDepthwiseConv2D = 2,
  kPool2D = 5,
  kFullyConnected = 8,
  kSoftmax = 9,
  kConcatenation = 10,
  kAdd = 11,
  kMul = 21,
  kLeakyRelu = 75,
};

// One scalar of an option table, whose place in the schema differs from op to op.
Options ReadTable(const Table& table, OptionsType type) {
  Options o;
  if (!table.present()) return o;
  switch (type) {
    case OptionsType::kConv2D:
    case OptionsType::kDepthwiseConv2D: {
      const bool depthwise = type == OptionsType::kDepthwiseConv2D;
      o.same_padding = table.Scalar<int8_t>(0, 0) == 0;
      o.stride_width = table.Scalar<int32_t>(1, 0);
      o.stride_height = table.Scalar<int32_t>(2, 0);
      if (depthwise) o.depth_multiplier = table.Scalar<int32_t>(3, 0);
      o.activation = table.Scalar<int8_t>(depthwise ? 4 : 3, 0);
      o.dilation_width = table.Scalar<int32_t>(depthwise ? 5 : 4, 1);
      o.dilation_height = table.Scalar<int32_t>(depthwise ? 6 : 5, 1);
      break;
    }
    case OptionsType::kPool2D:
      o.same_padding = table.Scalar<int8_t>(0, 0) == 0;
      o.stride_width = table.Scalar<int32_t>(1, 0);
      o.stride_height = table.Scalar<int32_t>(2, 0);
      o.filter_width = table.Scalar<int32_t>(3, 0);
      o.filter_height = table.Scalar<int32_t>(4, 0);
      o.activation = table.Scalar<int8_t>(5, 0);
      break;
    case OptionsType::kFullyConnected:
      o.activation = table.Scalar<int8_t>(0, 0);
      o.weights_format = table.Scalar<int8_t>(1, 0);
      break;
    case OptionsType::kSoftmax:
      o.beta = table.Scalar<float>(0, 0.0f);
      break;
    case OptionsType::kConcatenation:
      o.axis = table.Scalar<int32_t>(0, 0);
      o.activation = table.Scalar<int8_t>(1, 0);
      break;
    case OptionsType::kAdd:
    case OptionsType::kMul:
      o.activation = table.Scalar<int8_t>(0, 0);
      break;
    case OptionsType::kLeakyRelu:
      o.alpha = table.Scalar<float>(0, 0.0f);
      break;
    case OptionsType::kNone:
      break;
  }
  return o;
}

OptionsType ExpectedOptions(Builtin code) {
  switch (code) {
    case Builtin::kConv2D:
      return OptionsType::kConv2D;
    case Builtin::kDepthwiseConv2D:
      return OptionsType::kDepthwiseConv2D;
    case Builtin::kAveragePool2D:
    case Builtin::kMaxPool2D:
      return OptionsType::kPool2D;
    case Builtin::kFullyConnected:
      return OptionsType::kFullyConnected;
    case Builtin::kSoftmax:
      return OptionsType::kSoftmax;
    case Builtin::kConcatenation:
      return OptionsType::kConcatenation;
    case Builtin::kAdd:
      return OptionsType::kAdd;
    case Builtin::kMul:
      return OptionsType::kMul;
    case Builtin::kLeakyRelu:
      return OptionsType::kLeakyRelu;
    default:
      return OptionsType::kNone;
  }
}

}  // namespace

Options ReadOptions(const Operator& op, const Table& table, uint8_t type, size_t index) {
  const OptionsType expected = ExpectedOptions(op.code);
  // Ops whose options all have a usable default may leave them out.
  const bool needed = expected == OptionsType::kConv2D ||
                      expected == OptionsType::kDepthwiseConv2D ||
                      expected == OptionsType::kPool2D || expected == OptionsType::kSoftmax;
  const bool right = table.present() ? static_cast<OptionsType>(type) == expected : !needed;
  if (expected != OptionsType::kNone && !right) {
    throw ModelError("Expected options of " + op.name + " at operator " + std::to_string(index) +
                     ", got options of type " + std::to_string(type) + ": the file is damaged");
  }
  return ReadTable(table, expected);
}

}  // namespace tflm_train
