// The C library functions that compilers call by themselves; images link no other library than
// libgcc.
#include <cstddef>
#include <cstdint>

// Or the loops below become calls of themselves.
#pragma GCC optimize("no-tree-loop-distribute-patterns")

extern "C" {

void* memcpy(void* to, const void* from, size_t size) {
  uint8_t* t = static_cast<uint8_t*>(to);
  const uint8_t* f = static_cast<const uint8_t*>(from);
  if (((reinterpret_cast<uintptr_t>(t) | reinterpret_cast<uintptr_t>(f)) & 3u) == 0) {
    for (; size >= 4; size -= 4, t += 4, f += 4) {
      *reinterpret_cast<uint32_t*>(t) = *reinterpret_cast<const uint32_t*>(f);
    }
  }
  for (; size > 0; --size) *t++ = *f++;
  return to;
}

void* memset(void* to, int value, size_t size) {
  uint8_t* t = static_cast<uint8_t*>(to);
  const uint8_t byte = static_cast<uint8_t>(value);
  if ((reinterpret_cast<uintptr_t>(t) & 3u) == 0) {
    const uint32_t word = byte * 0x01010101u;
    for (; size >= 4; size -= 4, t += 4) *reinterpret_cast<uint32_t*>(t) = word;
  }
  for (; size > 0; --size) *t++ = byte;
  return to;
}

void* memmove(void* to, const void* from, size_t size) {
  uint8_t* t = static_cast<uint8_t*>(to);
  const uint8_t* f = static_cast<const uint8_t*>(from);
  if (t <= f) return memcpy(to, from, size);
  while (size > 0) {
    --size;
    t[size] = f[size];
  }
  return to;
}

int memcmp(const void* a, const void* b, size_t size) {
  const uint8_t* x = static_cast<const uint8_t*>(a);
  const uint8_t* y = static_cast<const uint8_t*>(b);
  for (; size > 0; --size, ++x, ++y) {
    if (*x != *y) return *x - *y;
  }
  return 0;
}

}  // extern "C"
