// Just enough JSON to read a training entry on a device: find a member of an object, walk an array,
// read an integer. Works in place, allocates nothing, never reads past the end.
#ifndef TFLM_TRAIN_MICRO_OPS_TFLM_JSON_CURSOR_H_
#define TFLM_TRAIN_MICRO_OPS_TFLM_JSON_CURSOR_H_

#include <cstdint>
#include <cstring>

namespace tflm_train {

class JsonCursor {
 public:
  JsonCursor(const char* begin, const char* end) : at_(begin), end_(end) { Space(); }

  // The value of member `key` of the object here; false when there is none.
  bool Find(const char* key, JsonCursor* value) const {
    JsonCursor c = *this;
    if (!c.Take('{')) return false;
    const uint32_t length = static_cast<uint32_t>(strlen(key));
    while (c.Peek() == '"') {
      const char* name = c.at_ + 1;
      if (!c.String()) return false;
      const bool same =
          static_cast<uint32_t>(c.at_ - 1 - name) == length && memcmp(name, key, length) == 0;
      c.Space();
      if (!c.Take(':')) return false;
      if (same) {
        *value = c;
        return true;
      }
      if (!c.Skip() || !c.Take(',')) return false;
    }
    return false;
  }

  // Enters an array; then First/Next walk its elements.
  bool Enter() { return Take('['); }
  bool AtElement() const { return at_ < end_ && *at_ != ']'; }
  bool Next() {
    if (!Skip()) return false;
    if (Peek() == ',') return Take(',');
    return Peek() == ']';
  }

  bool Integer(int32_t* value) const {
    const char* p = at_;
    const bool negative = p < end_ && *p == '-';
    if (negative) ++p;
    int64_t number = 0;
    const char* first = p;
    for (; p < end_ && *p >= '0' && *p <= '9'; ++p) {
      number = number * 10 + (*p - '0');
      if (number > INT32_MAX) return false;
    }
    *value = static_cast<int32_t>(negative ? -number : number);
    return p > first;
  }

  bool Is(const char* text) const {
    const uint32_t length = static_cast<uint32_t>(strlen(text));
    return end_ - at_ >= static_cast<int32_t>(length) + 2 && *at_ == '"' &&
           memcmp(at_ + 1, text, length) == 0 && at_[length + 1] == '"';
  }

 private:
  char Peek() const { return at_ < end_ ? *at_ : '\0'; }
  void Space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    Space();
    return true;
  }
  // Past the closing quote.
  bool String() {
    for (++at_; at_ < end_; ++at_) {
      if (*at_ == '\\') {
        ++at_;
      } else if (*at_ == '"') {
        ++at_;
        return true;
      }
    }
    return false;
  }
  // Past a value of any kind.
  bool Skip() {
    int32_t depth = 0;
    do {
      const char c = Peek();
      if (c == '"') {
        if (!String()) return false;
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        if (depth == 0) return false;
        --depth;
        ++at_;
      } else if (depth > 0 && (c == ',' || c == ':')) {
        ++at_;
      } else if (c == '\0') {
        return false;
      } else {
        while (at_ < end_ && strchr(",:]} \n\t\r", *at_) == nullptr) ++at_;
      }
      Space();
    } while (depth > 0);
    return true;
  }

  const char* at_;
  const char* end_;
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TFLM_JSON_CURSOR_H_
