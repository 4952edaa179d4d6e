// Stand-in for tests without a TFLM tree: the part of a TFLite file that the glue looks at, read
// where it lies. Written from the flatbuffers format and the TFLite schema; trusts the file.
#ifndef TFLM_TRAIN_TESTING_SCHEMA_GENERATED_H_
#define TFLM_TRAIN_TESTING_SCHEMA_GENERATED_H_

#include <cstdint>
#include <cstring>

namespace flatbuffers {

template <class T>
T ReadScalar(const void* from) {
  T value;
  memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
const T* Follow(const uint8_t* at) {
  return reinterpret_cast<const T*>(at + ReadScalar<uint32_t>(at));
}

template <class T>
struct Offset {};

template <class T>
class Vector {
 public:
  uint32_t size() const { return ReadScalar<uint32_t>(this); }
  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(this) + 4; }
  T Get(uint32_t i) const { return ReadScalar<T>(data() + i * sizeof(T)); }
};

template <class T>
class Vector<Offset<T>> {
 public:
  uint32_t size() const { return ReadScalar<uint32_t>(this); }
  const T* Get(uint32_t i) const {
    return Follow<T>(reinterpret_cast<const uint8_t*>(this) + 4 + 4 * i);
  }
};

class String : public Vector<uint8_t> {
 public:
  const char* c_str() const { return reinterpret_cast<const char*>(data()); }
};

class Table {
 protected:
  const uint8_t* Field(int id) const {
    const uint8_t* self = reinterpret_cast<const uint8_t*>(this);
    const uint8_t* table = self - ReadScalar<int32_t>(self);
    const int entry = 4 + 2 * id;
    if (entry + 2 > ReadScalar<uint16_t>(table)) return nullptr;
    const uint16_t offset = ReadScalar<uint16_t>(table + entry);
    return offset == 0 ? nullptr : self + offset;
  }
  template <class T>
  T Scalar(int id) const {
    const uint8_t* field = Field(id);
    return field == nullptr ? T() : ReadScalar<T>(field);
  }
  template <class T>
  const T* Pointer(int id) const {
    const uint8_t* field = Field(id);
    return field == nullptr ? nullptr : Follow<T>(field);
  }
};

}  // namespace flatbuffers

namespace tflite {

enum BuiltinOperator : int32_t {
  BuiltinOperator_CONV_2D = 3,
  BuiltinOperator_DEPTHWISE_CONV_2D = 4,
  BuiltinOperator_FULLY_CONNECTED = 9,
  BuiltinOperator_CUSTOM = 32,
};
enum TensorType : int8_t {
  TensorType_INT32 = 2,
  TensorType_UINT8 = 3,
  TensorType_INT8 = 9,
  TensorType_UINT16 = 16,
};

struct Buffer : flatbuffers::Table {
  const flatbuffers::Vector<uint8_t>* data() const {
    return Pointer<flatbuffers::Vector<uint8_t>>(0);
  }
};
struct QuantizationParameters : flatbuffers::Table {
  const flatbuffers::Vector<float>* scale() const { return Pointer<flatbuffers::Vector<float>>(2); }
  const flatbuffers::Vector<int64_t>* zero_point() const {
    return Pointer<flatbuffers::Vector<int64_t>>(3);
  }
};
struct Tensor : flatbuffers::Table {
  const flatbuffers::Vector<int32_t>* shape() const {
    return Pointer<flatbuffers::Vector<int32_t>>(0);
  }
  TensorType type() const { return static_cast<TensorType>(Scalar<int8_t>(1)); }
  uint32_t buffer() const { return Scalar<uint32_t>(2); }
  const QuantizationParameters* quantization() const { return Pointer<QuantizationParameters>(4); }
  bool is_variable() const { return Scalar<uint8_t>(5) != 0; }
};
struct OperatorCode : flatbuffers::Table {
  const flatbuffers::String* custom_code() const { return Pointer<flatbuffers::String>(1); }
  BuiltinOperator builtin_code() const { return static_cast<BuiltinOperator>(Scalar<int32_t>(3)); }
};
struct FullyConnectedOptions : flatbuffers::Table {
  // 0 none, 1 ReLU. A pointer into the file, or null for the default.
  const uint8_t* activation() const { return Field(0); }
};
struct Operator : flatbuffers::Table {
  uint32_t opcode_index() const { return Scalar<uint32_t>(0); }
  const flatbuffers::Vector<int32_t>* inputs() const {
    return Pointer<flatbuffers::Vector<int32_t>>(1);
  }
  const flatbuffers::Vector<int32_t>* outputs() const {
    return Pointer<flatbuffers::Vector<int32_t>>(2);
  }
  const FullyConnectedOptions* fully_connected_options() const {
    return Pointer<FullyConnectedOptions>(4);
  }
  const flatbuffers::Vector<uint8_t>* custom_options() const {
    return Pointer<flatbuffers::Vector<uint8_t>>(5);
  }
};
struct SubGraph : flatbuffers::Table {
  const flatbuffers::Vector<flatbuffers::Offset<Tensor>>* tensors() const {
    return Pointer<flatbuffers::Vector<flatbuffers::Offset<Tensor>>>(0);
  }
  const flatbuffers::Vector<int32_t>* inputs() const {
    return Pointer<flatbuffers::Vector<int32_t>>(1);
  }
  const flatbuffers::Vector<int32_t>* outputs() const {
    return Pointer<flatbuffers::Vector<int32_t>>(2);
  }
  const flatbuffers::Vector<flatbuffers::Offset<Operator>>* operators() const {
    return Pointer<flatbuffers::Vector<flatbuffers::Offset<Operator>>>(3);
  }
};
struct Metadata : flatbuffers::Table {
  const flatbuffers::String* name() const { return Pointer<flatbuffers::String>(0); }
  uint32_t buffer() const { return Scalar<uint32_t>(1); }
};
struct Model : flatbuffers::Table {
  uint32_t version() const { return Scalar<uint32_t>(0); }
  const flatbuffers::Vector<flatbuffers::Offset<OperatorCode>>* operator_codes() const {
    return Pointer<flatbuffers::Vector<flatbuffers::Offset<OperatorCode>>>(1);
  }
  const flatbuffers::Vector<flatbuffers::Offset<SubGraph>>* subgraphs() const {
    return Pointer<flatbuffers::Vector<flatbuffers::Offset<SubGraph>>>(2);
  }
  const flatbuffers::Vector<flatbuffers::Offset<Buffer>>* buffers() const {
    return Pointer<flatbuffers::Vector<flatbuffers::Offset<Buffer>>>(4);
  }
  const flatbuffers::Vector<flatbuffers::Offset<Metadata>>* metadata() const {
    return Pointer<flatbuffers::Vector<flatbuffers::Offset<Metadata>>>(6);
  }
};

inline const Model* GetModel(const void* bytes) {
  return flatbuffers::Follow<Model>(static_cast<const uint8_t*>(bytes));
}

}  // namespace tflite

#endif  // TFLM_TRAIN_TESTING_SCHEMA_GENERATED_H_
