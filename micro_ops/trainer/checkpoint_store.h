// Training state in flash: two slots, written in turn, so that a power cut at any flash operation
// leaves the state before or the state after, never neither. No heap; the flash is reached through
// three functions. docs/tflm.md, "Checkpoints", defines the bytes; tflm_train/_checkpoint_store.py
// reads and writes the same.
//
// A slot is whole sectors. Its first program unit(s) hold the header, which is programmed last; the
// payload follows. A slot counts only if the CRCs of header and payload fit.
#ifndef TFLM_TRAIN_MICRO_OPS_TRAINER_CHECKPOINT_STORE_H_
#define TFLM_TRAIN_MICRO_OPS_TRAINER_CHECKPOINT_STORE_H_

#include <cstdint>

namespace tflm_train {

constexpr uint32_t kCheckpointMagic = 0x54434b50u;  // "PKCT" in memory order
constexpr uint32_t kCheckpointVersion = 1;
constexpr uint32_t kCheckpointHeaderBytes = 32;
constexpr int32_t kCheckpointSlots = 2;

// Offsets count from the start of the store's area. Functions return false on failure.
struct CheckpointFlash {
  void* context;
  bool (*erase)(void* context, uint32_t offset);                         // one sector, to 0xff
  bool (*program)(void* context, uint32_t offset, const uint8_t* data);  // one program unit
  bool (*read)(void* context, uint32_t offset, uint8_t* data, uint32_t size);
  uint32_t sector_bytes;   // smallest erase, a multiple of program_bytes
  uint32_t program_bytes;  // smallest program, 1 .. ; RP2040: 256
  uint32_t slot_bytes;     // a multiple of sector_bytes
};

struct CheckpointStore {
  CheckpointFlash flash;
  uint32_t model_hash;  // CRC-32 of the .tflite, see Crc32
  uint8_t* page;        // program_bytes, at least 32, of the caller's memory
};

// The state lies in any number of pieces of memory: the score tensors, for instance.
struct CheckpointPart {
  void* data;
  uint32_t size;
};

enum class CheckpointStatus : int32_t {
  kOk = 0,
  kEmpty = 1,       // no valid slot
  kOtherModel = 2,  // valid slots belong to another model
  kOtherSize = 3,   // the state has another length
  kNewer = 4,       // written by a newer version of this format
  kTooLarge = 5,    // the state does not fit a slot
  kFlash = 6,       // erase, program, read or the check after writing failed
  kBadStore = 7,    // sizes of CheckpointFlash that do not fit each other
};
const char* CheckpointStatusText(CheckpointStatus status);

// Writes the parts, one after another, to the slot that does not hold the newest state of this
// model. On anything but kOk the newest state is still there.
CheckpointStatus CheckpointSave(const CheckpointStore& store, const CheckpointPart* parts,
                                int32_t count);

// Reads the newest state of this model. On anything but kOk the parts are as before, except after
// kFlash. `sequence` (may be null) receives the number of the save.
CheckpointStatus CheckpointLoad(const CheckpointStore& store, const CheckpointPart* parts,
                                int32_t count, uint32_t* sequence);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_TRAINER_CHECKPOINT_STORE_H_
