// Zeroth-order losses when one dense layer is all that trains: a perturbation of its weights adds
// mu * X z_k to its sums, so all directions come from one product X W and sums with signs.
#ifndef TFLM_TRAIN_MICRO_OPS_HOST_ZO_DENSE_H_
#define TFLM_TRAIN_MICRO_OPS_HOST_ZO_DENSE_H_

#include <memory>
#include <vector>

#include "micro_ops/host/zo_engine.h"

namespace tflm_train {

class ZoDense {
 public:
  // A trainable tensor of the layer; unit 0: it does not train.
  struct Part {
    int32_t unit = 0;
    uint32_t sign_block = 0;
  };

  // op: the dense layer; nullptr when the engine has no packed weights for it or the logits do not
  // follow from its output alone.
  static std::unique_ptr<ZoDense> Make(Engine* engine, const ZoProblem& problem, int32_t op,
                                       Part weights, Part bias);

  void Losses(const ZoBatch& batch, uint32_t step, int32_t q, const ZoLossTable& table,
              ZoLosses* losses);

 private:
  ZoDense(Engine* engine, const ZoProblem& problem, int32_t op, Part weights, Part bias);

  void LoadInputs(const ZoBatch& batch);
  void MakeDeltas(uint32_t key);
  int64_t LossAt(int32_t sign, const ZoBatch& batch, const ZoLossTable& table);

  Engine* engine_;
  ZoProblem problem_;
  int32_t op_;
  Part weights_, bias_;
  DenseLayer layer_ = {};
  bool direct_ = false;  // the logits are the layer's output, at most reshaped
  int32_t input_, output_;
  int32_t depth_, depth_padded_, columns_, pitch_;
  int32_t vectors_ = 0;  // input vectors of the batch

  std::vector<int8_t> inputs_;      // [vectors][depth], when operators before the layer run
  std::vector<uint8_t> converted_;  // rows for the matrix product
  AlignedArray<uint8_t> unsigned_;  // [vectors + 1][depth_padded]; the last row is all ones
  AlignedArray<int8_t> signs_;      // [columns][depth]
  std::vector<int32_t> sign_sums_;  // [vectors + 1][columns]
  std::vector<int32_t> base_, delta_, moved_;  // [vectors][pitch]
  std::vector<int8_t> outputs_, logits_;
};

}  // namespace tflm_train

#endif  // TFLM_TRAIN_MICRO_OPS_HOST_ZO_DENSE_H_
