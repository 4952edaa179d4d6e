// CRC-32 of IEEE 802.3, as zlib computes it, with a table of 16 words.
#ifndef TFLM_TRAIN_MICRO_OPS_TRAINER_CRC32_H_
#define TFLM_TRAIN_MICRO_OPS_TRAINER_CRC32_H_

#include <cstdint>

namespace tflm_train {

// Continue with the result of the bytes before; 0 starts.
inline uint32_t Crc32(const void* data, uint32_t size, uint32_t crc = 0) {
  static constexpr uint32_t kTable[16] = {0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu,
                                          0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
                                          0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu,
                                          0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu};
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (uint32_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    crc = (crc >> 4) ^ kTable[crc & 15u];
    crc = (crc >> 4) ^ kTable[crc & 15u];
  }
  return ~crc;
}

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TRAINER_CRC32_H_
