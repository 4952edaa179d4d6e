// Bounds-checked reading of flatbuffers: every access is checked against the file's size before it
// is made, so that no bytes, however damaged, make the reader leave the file. Small on purpose: the
// few field types the TFLite schema needs.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_FLATBUFFER_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_FLATBUFFER_H_

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tflm_train {

// A model the engine refuses: malformed bytes, or well-formed with something it cannot run.
class ModelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace flatbuffer {

struct Bytes {
  const uint8_t* data;
  size_t size;

  void Check(size_t position, size_t count) const {
    if (position > size || count > size - position) {
      throw ModelError("Expected a whole TFLite file, got " + std::to_string(size) +
                       " bytes that point outside the file: truncated or damaged; fetch or convert "
                       "it again");
    }
  }
  template <typename T>
  T Read(size_t position) const {
    Check(position, sizeof(T));
    T value;
    std::memcpy(&value, data + position, sizeof(T));
    return value;
  }
  // Target of the offset stored at `position`.
  size_t Follow(size_t position) const {
    const size_t target = position + Read<uint32_t>(position);
    Check(target, sizeof(uint32_t));
    return target;
  }
};

// A vector of plain values.
template <typename T>
class Vector {
 public:
  Vector() = default;
  Vector(Bytes bytes, size_t position)
      : bytes_(bytes), begin_(position + 4), size_(bytes.Read<uint32_t>(position)) {
    if (size_ > bytes.size / sizeof(T)) bytes.Check(bytes.size, 1);
    bytes.Check(begin_, size_ * sizeof(T));
  }
  size_t size() const { return size_; }
  size_t begin() const { return begin_; }  // position in the file
  T operator[](size_t i) const { return bytes_.Read<T>(begin_ + i * sizeof(T)); }

 private:
  Bytes bytes_ = {nullptr, 0};
  size_t begin_ = 0;
  size_t size_ = 0;
};

class Table {
 public:
  Table() = default;
  Table(Bytes bytes, size_t position) : bytes_(bytes), position_(position) {
    const int64_t vtable = static_cast<int64_t>(position) - bytes.Read<int32_t>(position);
    if (vtable < 0) bytes.Check(bytes.size, 1);
    vtable_ = static_cast<size_t>(vtable);
    vtable_size_ = bytes.Read<uint16_t>(vtable_);
    if (vtable_size_ < 4) bytes.Check(bytes.size, 1);
    bytes.Check(vtable_, vtable_size_);
    bytes.Check(position_, bytes.Read<uint16_t>(vtable_ + 2));
  }
  static Table Root(Bytes bytes) { return Table(bytes, bytes.Follow(0)); }

  bool present() const { return bytes_.data != nullptr; }
  bool Has(int id) const { return Position(id) != 0; }

  template <typename T>
  T Scalar(int id, T fallback) const {
    const size_t position = Position(id);
    return position ? bytes_.Read<T>(position) : fallback;
  }
  template <typename T>
  Vector<T> Values(int id) const {
    const size_t position = Position(id);
    return position ? Vector<T>(bytes_, bytes_.Follow(position)) : Vector<T>();
  }
  std::string_view String(int id) const {
    const Vector<uint8_t> v = Values<uint8_t>(id);
    return {reinterpret_cast<const char*>(bytes_.data) + v.begin(), v.size()};
  }
  // Absent sub-tables are not present().
  Table Child(int id) const {
    const size_t position = Position(id);
    return position ? Table(bytes_, bytes_.Follow(position)) : Table();
  }
  size_t ChildCount(int id) const { return Values<uint32_t>(id).size(); }
  Table Child(int id, size_t i) const {
    return Table(bytes_, bytes_.Follow(Values<uint32_t>(id).begin() + 4 * i));
  }

 private:
  // Position of a field in the file, 0 when it is absent.
  size_t Position(int id) const {
    const size_t entry = 4 + 2 * static_cast<size_t>(id);
    if (!present() || entry + 2 > vtable_size_) return 0;
    const uint16_t offset = bytes_.Read<uint16_t>(vtable_ + entry);
    return offset ? position_ + offset : 0;
  }

  Bytes bytes_ = {nullptr, 0};
  size_t position_ = 0;
  size_t vtable_ = 0;
  size_t vtable_size_ = 0;
};

}  // namespace flatbuffer
}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_FLATBUFFER_H_
