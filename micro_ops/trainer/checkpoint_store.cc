#include "micro_ops/trainer/checkpoint_store.h"

#include "micro_ops/trainer/crc32.h"

namespace tflm_train {
namespace {

struct Header {
  uint32_t version, length, model_hash, sequence, payload_crc;
  bool valid;
};

void Put(uint8_t* to, uint32_t value) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<uint8_t>(value >> (8 * i));
}

uint32_t Get(const uint8_t* from) {
  return from[0] | static_cast<uint32_t>(from[1]) << 8 | static_cast<uint32_t>(from[2]) << 16 |
         static_cast<uint32_t>(from[3]) << 24;
}

// Bytes of the program units that hold the header.
uint32_t HeaderArea(const CheckpointFlash& flash) {
  const uint32_t unit = flash.program_bytes;
  return (kCheckpointHeaderBytes + unit - 1) / unit * unit;
}

bool GoodStore(const CheckpointFlash& f) {
  return f.program_bytes > 0 && f.sector_bytes >= kCheckpointHeaderBytes &&
         f.sector_bytes % f.program_bytes == 0 && f.slot_bytes >= f.sector_bytes &&
         f.slot_bytes % f.sector_bytes == 0 && HeaderArea(f) < f.slot_bytes;
}

uint32_t TotalSize(const CheckpointPart* parts, int32_t count) {
  uint32_t total = 0;
  for (int32_t i = 0; i < count; ++i) total += parts[i].size;
  return total;
}

// CRC of the payload as it is in flash, read through a small buffer.
bool FlashCrc(const CheckpointFlash& flash, uint32_t offset, uint32_t length, uint32_t* crc) {
  uint8_t chunk[32];
  *crc = 0;
  while (length > 0) {
    const uint32_t size = length < sizeof(chunk) ? length : sizeof(chunk);
    if (!flash.read(flash.context, offset, chunk, size)) return false;
    *crc = Crc32(chunk, size, *crc);
    offset += size;
    length -= size;
  }
  return true;
}

bool ReadHeader(const CheckpointFlash& flash, int32_t slot, Header* header) {
  uint8_t raw[kCheckpointHeaderBytes];
  const uint32_t base = static_cast<uint32_t>(slot) * flash.slot_bytes;
  header->valid = false;
  if (!flash.read(flash.context, base, raw, sizeof(raw))) return false;
  header->version = Get(raw + 4);
  header->length = Get(raw + 8);
  header->model_hash = Get(raw + 12);
  header->sequence = Get(raw + 16);
  header->payload_crc = Get(raw + 20);
  const uint32_t area = HeaderArea(flash);
  if (Get(raw) != kCheckpointMagic || Get(raw + 28) != Crc32(raw, 28)) return true;
  if (header->version > kCheckpointVersion) {
    header->valid = true;
    return true;
  }
  if (header->length > flash.slot_bytes - area) return true;
  uint32_t crc;
  if (!FlashCrc(flash, base + area, header->length, &crc)) return false;
  header->valid = crc == header->payload_crc;
  return true;
}

bool Newer(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

// The newest valid slot of the model, or -1.
int32_t Newest(const Header (&headers)[kCheckpointSlots], uint32_t model_hash) {
  int32_t best = -1;
  for (int32_t i = 0; i < kCheckpointSlots; ++i) {
    const Header& h = headers[i];
    if (!h.valid || h.version > kCheckpointVersion || h.model_hash != model_hash) continue;
    if (best < 0 || Newer(h.sequence, headers[best].sequence)) best = i;
  }
  return best;
}

// Streams parts into program units.
class Pages {
 public:
  Pages(const CheckpointStore& store, uint32_t offset) : store_(store), offset_(offset) {}

  bool Append(const CheckpointPart& part) {
    const uint8_t* bytes = static_cast<const uint8_t*>(part.data);
    for (uint32_t i = 0; i < part.size; ++i) {
      store_.page[used_++] = bytes[i];
      if (used_ == store_.flash.program_bytes && !Flush()) return false;
    }
    return true;
  }

  // Fills the last unit with 0xff.
  bool Finish() {
    if (used_ == 0) return true;
    while (used_ < store_.flash.program_bytes) store_.page[used_++] = 0xff;
    return Flush();
  }

 private:
  bool Flush() {
    used_ = 0;
    const bool ok = store_.flash.program(store_.flash.context, offset_, store_.page);
    offset_ += store_.flash.program_bytes;
    return ok;
  }

  const CheckpointStore& store_;
  uint32_t offset_;
  uint32_t used_ = 0;
};

CheckpointStatus WriteSlot(const CheckpointStore& store, uint32_t base, uint32_t sequence,
                           const CheckpointPart* parts, int32_t count) {
  const CheckpointFlash& flash = store.flash;
  const uint32_t area = HeaderArea(flash);
  const uint32_t length = TotalSize(parts, count);
  for (uint32_t at = 0; at < area + length; at += flash.sector_bytes) {
    if (!flash.erase(flash.context, base + at)) return CheckpointStatus::kFlash;
  }
  Pages pages(store, base + area);
  uint32_t crc = 0;
  for (int32_t i = 0; i < count; ++i) {
    crc = Crc32(parts[i].data, parts[i].size, crc);
    if (!pages.Append(parts[i])) return CheckpointStatus::kFlash;
  }
  if (!pages.Finish()) return CheckpointStatus::kFlash;
  uint32_t found;
  if (!FlashCrc(flash, base + area, length, &found) || found != crc) {
    return CheckpointStatus::kFlash;
  }
  uint8_t raw[kCheckpointHeaderBytes];
  Put(raw, kCheckpointMagic);
  Put(raw + 4, kCheckpointVersion);
  Put(raw + 8, length);
  Put(raw + 12, store.model_hash);
  Put(raw + 16, sequence);
  Put(raw + 20, crc);
  Put(raw + 24, 0);
  Put(raw + 28, Crc32(raw, 28));
  Pages header(store, base);
  const bool ok = header.Append({raw, sizeof(raw)}) && header.Finish();
  return ok ? CheckpointStatus::kOk : CheckpointStatus::kFlash;
}

}  // namespace

const char* CheckpointStatusText(CheckpointStatus status) {
  static constexpr const char* kTexts[] = {
      "ok",
      "no checkpoint yet",
      "checkpoint of another model",
      "checkpoint of another length",
      "checkpoint of a newer version of this software",
      "state does not fit a slot",
      "flash operation failed",
      "sector, program and slot sizes do not fit each other",
  };
  return kTexts[static_cast<int32_t>(status)];
}

CheckpointStatus CheckpointSave(const CheckpointStore& store, const CheckpointPart* parts,
                                int32_t count) {
  const CheckpointFlash& flash = store.flash;
  if (!GoodStore(flash)) return CheckpointStatus::kBadStore;
  if (TotalSize(parts, count) > flash.slot_bytes - HeaderArea(flash)) {
    return CheckpointStatus::kTooLarge;
  }
  Header headers[kCheckpointSlots];
  uint32_t sequence = 0;
  bool any = false;
  for (int32_t i = 0; i < kCheckpointSlots; ++i) {
    if (!ReadHeader(flash, i, &headers[i])) return CheckpointStatus::kFlash;
    if (!headers[i].valid) continue;
    if (!any || Newer(headers[i].sequence, sequence)) sequence = headers[i].sequence;
    any = true;
  }
  const int32_t newest = Newest(headers, store.model_hash);
  const int32_t slot = newest < 0 ? 0 : 1 - newest;
  const uint32_t base = static_cast<uint32_t>(slot) * flash.slot_bytes;
  CheckpointStatus status = WriteSlot(store, base, any ? sequence + 1 : 1, parts, count);
  if (status != CheckpointStatus::kOk) return status;
  Header written;
  const bool ok = ReadHeader(flash, slot, &written) && written.valid;
  return ok ? CheckpointStatus::kOk : CheckpointStatus::kFlash;
}

CheckpointStatus CheckpointLoad(const CheckpointStore& store, const CheckpointPart* parts,
                                int32_t count, uint32_t* sequence) {
  const CheckpointFlash& flash = store.flash;
  if (!GoodStore(flash)) return CheckpointStatus::kBadStore;
  Header headers[kCheckpointSlots];
  bool any = false, newer = false;
  for (int32_t i = 0; i < kCheckpointSlots; ++i) {
    if (!ReadHeader(flash, i, &headers[i])) return CheckpointStatus::kFlash;
    any = any || headers[i].valid;
    newer = newer || (headers[i].valid && headers[i].version > kCheckpointVersion);
  }
  const int32_t slot = Newest(headers, store.model_hash);
  if (slot < 0) {
    if (newer) return CheckpointStatus::kNewer;
    return any ? CheckpointStatus::kOtherModel : CheckpointStatus::kEmpty;
  }
  if (headers[slot].length != TotalSize(parts, count)) return CheckpointStatus::kOtherSize;
  uint32_t offset = static_cast<uint32_t>(slot) * flash.slot_bytes + HeaderArea(flash);
  for (int32_t i = 0; i < count; ++i) {
    uint8_t* data = static_cast<uint8_t*>(parts[i].data);
    if (!flash.read(flash.context, offset, data, parts[i].size)) return CheckpointStatus::kFlash;
    offset += parts[i].size;
  }
  if (sequence != nullptr) *sequence = headers[slot].sequence;
  return CheckpointStatus::kOk;
}

}  // namespace tflm_train
