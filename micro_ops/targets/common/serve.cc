// The application of every image: answers frames on the UART. docs/firmware.md, "Protocol", is the
// specification; tflm_train/_firmware/protocol.py is the other side.
//
// A frame: 0xa5, type, length (16 bits), payload, CRC-32 of all from type to payload; all numbers
// little endian. Each request gets one answer, of the request's type or '!' with a reason.
#include <cstdint>
#include <cstring>

#include "micro_ops/targets/common/board.h"
#include "micro_ops/trainer/crc32.h"
#include "model.h"

namespace tflm_train {
namespace {

constexpr uint8_t kSync = 0xa5;
constexpr uint32_t kMaxChunk = 1024;
constexpr uint32_t kSampleBytes = 6 + MODEL_INPUT_SIZE;
constexpr uint32_t kMaxPayload = kSampleBytes > kMaxChunk + 4 ? kSampleBytes : kMaxChunk + 4;

enum Reason : uint8_t { kBadCrc = 1, kBadType = 2, kBadLength = 3, kBadValue = 4 };

alignas(4) uint8_t payload[kMaxPayload];
alignas(4) int8_t samples[MODEL_MAX_BATCH][MODEL_INPUT_SIZE];
int32_t labels[MODEL_MAX_BATCH];

uint32_t Get(const uint8_t* from, uint32_t bytes) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < bytes; ++i) value |= static_cast<uint32_t>(from[i]) << (8 * i);
  return value;
}

void Put(uint8_t* to, uint64_t value, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(value >> (8 * i));
}

void Answer(uint8_t type, const void* data, uint32_t size) {
  uint8_t head[3] = {type, static_cast<uint8_t>(size), static_cast<uint8_t>(size >> 8)};
  const uint32_t crc = Crc32(data, size, Crc32(head, 3));
  BoardWrite(kSync);
  for (uint8_t byte : head) BoardWrite(byte);
  for (uint32_t i = 0; i < size; ++i) BoardWrite(static_cast<const uint8_t*>(data)[i]);
  for (uint32_t i = 0; i < 4; ++i) BoardWrite(static_cast<uint8_t>(crc >> (8 * i)));
}

void Refuse(Reason reason) { Answer('!', &reason, 1); }

void Describe() {
  uint8_t out[24];
  Put(out, MODEL_INPUT_SIZE, 4);
  Put(out + 4, MODEL_OUTPUT_SIZE, 4);
  Put(out + 8, MODEL_STATE_BYTES, 4);
  Put(out + 12, MODEL_MAX_BATCH, 4);
  Put(out + 16, MODEL_TRAINS, 4);
  Put(out + 20, BoardStackUsed(), 4);
  Answer('I', out, sizeof(out));
}

void Infer(uint32_t length) {
  if (length != MODEL_INPUT_SIZE) return Refuse(kBadLength);
  int8_t logits[MODEL_OUTPUT_SIZE];
  BoardWorkBegin();
  model_infer(reinterpret_cast<const int8_t*>(payload), logits);
  BoardWorkEnd();
  Answer('P', logits, sizeof(logits));
}

void StoreSample(uint32_t length) {
  if (length != kSampleBytes) return Refuse(kBadLength);
  const uint32_t slot = Get(payload, 2);
  if (slot >= MODEL_MAX_BATCH) return Refuse(kBadValue);
  labels[slot] = static_cast<int32_t>(Get(payload + 2, 4));
  memcpy(samples[slot], payload + 6, MODEL_INPUT_SIZE);
  Answer('D', nullptr, 0);
}

#if MODEL_TRAINS
void Train(uint32_t length) {
  const uint32_t count = length == 2 ? Get(payload, 2) : 0;
  if (count < 1 || count > MODEL_MAX_BATCH) return Refuse(kBadValue);
  const int8_t* inputs[MODEL_MAX_BATCH];
  for (uint32_t i = 0; i < count; ++i) inputs[i] = samples[i];
  BoardWorkBegin();
  const int result = model_train_batch(inputs, labels, static_cast<int32_t>(count));
  BoardWorkEnd();
  uint8_t out[12 + MODEL_OUTPUT_SIZE];
  Put(out, static_cast<uint32_t>(result), 4);
  Put(out + 4, static_cast<uint64_t>(model_loss()), 8);
  memcpy(out + 12, model_logits(), MODEL_OUTPUT_SIZE);
  Answer('T', out, sizeof(out));
}

void ReadState(uint32_t length) {
  const uint32_t offset = Get(payload, 4);
  if (length != 4 || offset >= MODEL_STATE_BYTES) return Refuse(kBadValue);
  const uint32_t left = MODEL_STATE_BYTES - offset;
  const uint32_t size = left < kMaxChunk ? left : kMaxChunk;
  model_get_state(offset, payload, size);
  Answer('S', payload, size);
}

void WriteState(uint32_t length) {
  if (length <= 4 || model_set_state(Get(payload, 4), payload + 4, length - 4) != 0) {
    return Refuse(kBadValue);
  }
  Answer('L', nullptr, 0);
}

void StateCrc() {
  uint8_t out[4];
  Put(out, model_state_crc(), 4);
  Answer('C', out, 4);
}

void EndEpoch(uint32_t length) {
  if (length != 8) return Refuse(kBadLength);
  const uint64_t metric = Get(payload, 4) | static_cast<uint64_t>(Get(payload + 4, 4)) << 32;
  uint8_t out[4];
  Put(out, static_cast<uint32_t>(model_end_epoch(static_cast<int64_t>(metric))), 4);
  Answer('E', out, 4);
}
#endif  // MODEL_TRAINS

// False after 'Q'.
bool Serve() {
  while (BoardRead() != kSync) {
  }
  uint8_t head[3];
  for (uint8_t& byte : head) byte = BoardRead();
  const uint32_t length = Get(head + 1, 2);
  for (uint32_t i = 0; i < length; ++i) {
    const uint8_t byte = BoardRead();
    if (i < kMaxPayload) payload[i] = byte;
  }
  uint8_t crc[4];
  for (uint8_t& byte : crc) byte = BoardRead();
  if (length > kMaxPayload) {
    Refuse(kBadLength);
    return true;
  }
  if (Get(crc, 4) != Crc32(payload, length, Crc32(head, 3))) {
    Refuse(kBadCrc);
    return true;
  }
  switch (head[0]) {
    case 'I':
      Describe();
      break;
    case 'P':
      Infer(length);
      break;
    case 'D':
      StoreSample(length);
      break;
#if MODEL_TRAINS
    case 'T':
      Train(length);
      break;
    case 'S':
      ReadState(length);
      break;
    case 'L':
      WriteState(length);
      break;
    case 'C':
      StateCrc();
      break;
    case 'E':
      EndEpoch(length);
      break;
    case 'K':
      model_set_decay(static_cast<int32_t>(Get(payload, 4)));
      Answer('K', nullptr, 0);
      break;
    case 'R':
      model_init();
      Answer('R', nullptr, 0);
      break;
#endif
    case 'Q':
      Answer('Q', nullptr, 0);
      return false;
    default:
      Refuse(kBadType);
  }
  return true;
}

}  // namespace
}  // namespace tflm_train

int main() {
  model_init();
  while (tflm_train::Serve()) {
  }
  return 0;
}
