// One operator with its tensors and the checks all kernels share.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_OPERATOR_VIEW_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_OPERATOR_VIEW_H_

#include <string>

#include "micro_ops/host/kernel.h"
#include "micro_ops/host/quantize_multiplier.h"

namespace tflm_train {

class OperatorView {
 public:
  OperatorView(const KernelContext& context, int32_t index)
      : context_(context), op_(context.model.operators[index]), index_(index) {}

  const Operator& op() const { return op_; }
  const Options& options() const { return op_.options; }
  const SimdKernels* simd() const { return context_.simd; }

  // Throws ModelError "operator 3 CONV_2D: Expected ..." unless `ok`.
  void Require(bool ok, const std::string& expectation) const;
  void CheckCounts(size_t least_inputs, size_t most_inputs) const;

  bool HasInput(size_t i) const { return i < op_.inputs.size() && op_.inputs[i] >= 0; }
  const Tensor& Input(size_t i) const;
  const Tensor& Output() const { return context_.model.tensors[op_.outputs[0]]; }
  std::string InputName(size_t i) const { return context_.model.Describe(op_.inputs[i]); }
  std::string OutputName() const { return context_.model.Describe(op_.outputs[0]); }
  Operand InputOperand(size_t i) const;
  Operand OutputOperand() const;

  // An int8 tensor with one scale above 0 and a zero point in range.
  void CheckInt8(const Tensor& tensor, const std::string& name) const;
  // Input `i` and the output as such, the former of `rank` dimensions unless that is negative.
  const Tensor& Int8Input(size_t i, int32_t rank = -1) const;
  const Tensor& Int8Output(int32_t rank = -1) const;

  // Data of a constant input; refuses an activation.
  template <typename T>
  const T* Constant(size_t i, TensorType type) const {
    CheckConstant(i, type);
    return reinterpret_cast<const T*>(Data(i));
  }
  // int8 filter with symmetric scales, constant or not; one scale, or one for each of `channels`
  // along `dimension`.
  const Tensor& Filter(size_t i, int32_t rank, int32_t dimension, int32_t channels) const;
  // int32 bias of `channels` values, nullptr when absent.
  const int32_t* Bias(size_t i, int32_t channels) const;

  Multiplier Scale(double value) const;
  void ActivationRange(int32_t* low, int32_t* high) const;

 private:
  const uint8_t* Data(size_t i) const { return context_.constants[Input(i).buffer].data(); }
  void CheckConstant(size_t i, TensorType type) const;
  int32_t Quantize(float value) const;

  const KernelContext& context_;
  const Operator& op_;
  int32_t index_;
};

// Where a window's output lies: computed by TFLM's rule and compared with the file.
struct Padding {
  int32_t size;    // of the output
  int32_t before;  // padding
};
Padding ComputePadding(const OperatorView& view, bool same, int32_t input, int32_t filter,
                       int32_t stride, int32_t dilation);

// The families of kernels, one file each.
std::unique_ptr<Kernel> MakeConvKernel(const OperatorView& view);
std::unique_ptr<Kernel> MakeDepthwiseKernel(const OperatorView& view);
std::unique_ptr<Kernel> MakeFullyConnectedKernel(const OperatorView& view);
std::unique_ptr<Kernel> MakePoolKernel(const OperatorView& view);
std::unique_ptr<Kernel> MakeMeanKernel(const OperatorView& view);
std::unique_ptr<Kernel> MakeAddKernel(const OperatorView& view);
std::unique_ptr<Kernel> MakeMulKernel(const OperatorView& view);
std::unique_ptr<Kernel> MakePointwiseKernel(const OperatorView& view);
std::unique_ptr<Kernel> MakeSoftmaxKernel(const OperatorView& view);
std::unique_ptr<Kernel> MakeCopyKernel(const OperatorView& view);
std::unique_ptr<Kernel> MakePadKernel(const OperatorView& view);
std::unique_ptr<Kernel> MakeConcatenationKernel(const OperatorView& view);

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_OPERATOR_VIEW_H_
