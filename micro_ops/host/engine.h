// Executes a TFLite flatbuffer with the bits of TFLM's reference kernels.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_ENGINE_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_ENGINE_H_

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "micro_ops/host/kernel.h"
#include "micro_ops/host/model.h"

namespace tflm_train {

// One tensor's values for all samples of a run.
struct Feed {
  int32_t tensor;
  const int8_t* data;
};
struct Fetch {
  int32_t tensor;
  int8_t* data;
};

class Engine {
 public:
  // Copies, verifies and prepares the model. Throws ModelError.
  Engine(const uint8_t* data, size_t size, const std::string& simd, int32_t threads,
         bool preserve_all);

  const Model& model() const { return model_; }
  int32_t operators() const { return static_cast<int32_t>(kernels_.size()); }
  const char* simd() const { return simd_ ? simd_->name : "portable"; }
  const SimdKernels* simd_kernels() const { return simd_; }
  // Bytes of all activations, inputs and outputs included, planned for one sample.
  size_t arena_bytes() const { return arena_bytes_; }
  int32_t threads() const { return threads_; }

  // Runs operators [first, last) on `samples` samples, those of them that the fetches need. Throws
  // std::invalid_argument when a tensor is needed that is neither fed nor computed.
  void Run(int32_t first, int32_t last, const std::vector<Feed>& feeds,
           const std::vector<Fetch>& fetches, int32_t samples);

  // Activations made before operator `op` that it or a later one reads, or that are outputs.
  std::vector<int32_t> LiveTensors(int32_t op) const;
  // Activations that operators or feeds fill, in order.
  std::vector<int32_t> Activations() const;

  // Values of a constant. Writing takes effect for every later run.
  const uint8_t* Constant(int32_t tensor) const;
  void WriteConstant(int32_t tensor, const void* data);
  // Activation of the last sample of the last Run with preserve_all; empty when there is none.
  std::vector<int8_t> Preserved(int32_t tensor);

  // The flatbuffer with the constants as they are now.
  std::vector<uint8_t> Serialize() const;

  // For trainers, which hold the lock and change constants in place: the bytes of a constant, and
  // the kernels that must be told.
  std::shared_mutex& mutex() { return mutex_; }
  uint8_t* MutableConstant(int32_t tensor);
  std::vector<Kernel*> ReadersOf(int32_t tensor) const;
  // Run for a caller that holds the lock.
  void RunLocked(int32_t first, int32_t last, const std::vector<Feed>& feeds,
                 const std::vector<Fetch>& fetches, int32_t samples);
  Kernel* kernel(int32_t op) { return kernels_[op].get(); }

  void CheckTensor(int32_t tensor) const;
  // Values of one sample of an activation, checked.
  int32_t Outputs(int32_t tensor) const {
    CheckTensor(tensor);
    return static_cast<int32_t>(model_.tensors[tensor].elements);
  }
  // Refuses constants whose values shaped the kernels (axes, paddings, shapes).
  void CheckWritable(int32_t tensor) const;

 private:
  struct Plan {
    std::vector<int32_t> operators;  // to run, in order
    std::vector<size_t> offset;      // by tensor, SIZE_MAX for those outside the arena
    size_t arena_bytes = 0;          // for one sample
    size_t scratch_bytes = 0;
    size_t largest = 1;  // bytes of the largest activation
  };
  struct Workspace {
    AlignedArray<uint8_t> arena, scratch;
    std::vector<int8_t*> data;
  };

  void CheckGraph() const;
  void CheckConstant(int32_t tensor) const;
  const Plan& FindPlan(int32_t first, int32_t last, const std::vector<Feed>& feeds,
                       const std::vector<Fetch>& fetches);
  std::unique_ptr<Plan> MakePlan(int32_t first, int32_t last, const std::vector<int32_t>& feeds,
                                 const std::vector<int32_t>& fetches) const;
  void RunThreads(const Plan& plan, const std::vector<Feed>& feeds,
                  const std::vector<Fetch>& fetches, int32_t samples, int32_t threads);
  void RunSamples(const Plan& plan, const std::vector<Feed>& feeds,
                  const std::vector<Fetch>& fetches, int32_t begin, int32_t end);
  void Preserve(int32_t first, int32_t last, const std::vector<Feed>& feeds, int32_t sample);
  std::unique_ptr<Workspace> TakeWorkspace();
  void ReturnWorkspace(std::unique_ptr<Workspace> workspace);

  std::vector<uint8_t> file_;
  Model model_;
  std::vector<AlignedArray<uint8_t>> constants_;  // by buffer
  const SimdKernels* simd_;
  int32_t threads_;
  bool preserve_all_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  size_t arena_bytes_ = 0;

  std::shared_mutex mutex_;  // shared by runs, exclusive for writes
  std::mutex pool_mutex_;    // guards what follows
  std::map<std::vector<int32_t>, std::unique_ptr<Plan>> plans_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;
  std::map<int32_t, std::vector<int8_t>> preserved_;
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_ENGINE_H_
