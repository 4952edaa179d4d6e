// An operator ready to run: parameters checked and computed, weights packed.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_KERNEL_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "micro_ops/core/fully_connected.h"
#include "micro_ops/host/aligned.h"
#include "micro_ops/host/model.h"
#include "micro_ops/host/simd.h"

namespace tflm_train {

// Data of every tensor during a run. Sample i of an activation starts i times its size behind
// data[tensor]; a constant is the same for all samples.
struct Frame {
  int8_t* const* data;
  uint8_t* scratch;
  int32_t samples;
};

// A tensor as a kernel sees it.
struct Operand {
  int32_t tensor = -1;
  size_t step = 0;  // bytes from sample to sample, 0 for a constant

  int8_t* At(const Frame& frame, int32_t sample) const {
    return frame.data[tensor] + static_cast<size_t>(sample) * step;
  }
};

// What a trainer needs to know of a dense layer.
struct DenseLayer {
  const FullyConnectedParams* params;
  int32_t rows;              // input vectors of one sample
  const PackedGemm* packed;  // nullptr for the portable kernel
  const int8_t* filter;
  const int32_t* bias;  // may be nullptr
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Run(const Frame& frame) const = 0;
  // Bytes of Frame::scratch that Run uses.
  virtual size_t scratch_bytes() const { return 0; }
  // Takes changed constants into packed copies; a kernel that keeps none needs nothing.
  virtual void Repack() {}
  // Fills *layer and returns true when the kernel is a dense layer with constant weights.
  virtual bool Dense(DenseLayer* /*layer*/) const { return false; }
};

// What kernels are made from. `constants` holds the data of each buffer and stays where it is for
// the life of the kernels.
struct KernelContext {
  const Model& model;
  std::vector<AlignedArray<uint8_t>>& constants;
  const SimdKernels* simd;  // nullptr: the portable kernels of micro_ops/core
};

// Checks operator `index` in full and builds its kernel. Throws ModelError naming operator and
// tensor.
std::unique_ptr<Kernel> MakeKernel(const KernelContext& context, int32_t index);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_KERNEL_H_
