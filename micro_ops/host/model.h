// A TFLite model as plain structures, read and checked once; nothing here points into a file.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_MODEL_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_MODEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "micro_ops/host/flatbuffer.h"

namespace tflm_train {

// Values of the schema's enums that the engine knows.
enum class TensorType : int32_t {
  kFloat32 = 0,
  kInt32 = 2,
  kUInt8 = 3,
  kInt64 = 4,
  kBool = 6,
  kInt16 = 7,
  kInt8 = 9,
};

enum class Builtin : int32_t {
  kAdd = 0,
  kAveragePool2D = 1,
  kConcatenation = 2,
  kConv2D = 3,
  kDepthwiseConv2D = 4,
  kFullyConnected = 9,
  kLogistic = 14,
  kMaxPool2D = 17,
  kMul = 18,
  kRelu = 19,
  kReluN1To1 = 20,
  kRelu6 = 21,
  kReshape = 22,
  kSoftmax = 25,
  kCustom = 32,
  kPad = 34,
  kMean = 40,
  kSqueeze = 43,
  kPadV2 = 60,
  kExpandDims = 70,
  kLeakyRelu = 98,
  kQuantize = 114,
};

enum class Activation : int32_t { kNone = 0, kRelu = 1, kReluN1To1 = 2, kRelu6 = 3 };

struct Tensor {
  std::string name;
  TensorType type = TensorType::kInt8;
  std::vector<int32_t> shape;
  int64_t elements = 1;  // product of the shape
  int32_t buffer = 0;
  bool constant = false;  // has data in the file
  std::vector<float> scale;
  std::vector<int64_t> zero_point;
  int32_t quantized_dimension = 0;

  size_t bytes() const;
};

struct Options {
  bool same_padding = false;
  int32_t stride_width = 1, stride_height = 1;
  int32_t dilation_width = 1, dilation_height = 1;
  int32_t filter_width = 1, filter_height = 1;
  int32_t depth_multiplier = 1;
  int32_t axis = 0;
  int32_t weights_format = 0;
  int32_t activation = 0;  // as in the file: an unknown one is refused by the op that meets it
  float beta = 1.0f;
  float alpha = 0.0f;
};

struct Operator {
  Builtin code;
  std::string name;  // "CONV_2D"
  std::vector<int32_t> inputs, outputs;
  Options options;
};

struct Buffer {
  size_t position = 0;  // of the data in the file
  size_t size = 0;
};

struct Model {
  std::vector<Tensor> tensors;
  std::vector<Operator> operators;
  std::vector<Buffer> buffers;
  std::vector<int32_t> inputs, outputs;

  // "tensor 12 'dense/MatMul'", for messages.
  std::string Describe(int32_t tensor) const;
};

// Bytes of one element; 0 for a type without a fixed size.
size_t ItemSize(TensorType type);
std::string TypeName(int32_t type);
std::string BuiltinName(int32_t code);

// Parses and checks the first sub-graph. Throws ModelError for bytes that are not a TFLite file,
// that point outside themselves or contradict themselves, and for tensors no kernel handles.
Model ReadModel(const uint8_t* data, size_t size);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_MODEL_H_
