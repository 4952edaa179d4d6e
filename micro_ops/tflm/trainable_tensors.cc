#include "micro_ops/tflm/trainable_tensors.h"

#include "micro_ops/tflm/json_cursor.h"

namespace tflm_train {
namespace {

constexpr char kEntryName[] = "tflm_train";

bool FindEntry(const tflite::Model* model, const char** begin, const char** end) {
  if (model->metadata() == nullptr) return false;
  for (uint32_t i = 0; i < model->metadata()->size(); ++i) {
    const auto* entry = model->metadata()->Get(i);
    if (entry->name() == nullptr || strcmp(entry->name()->c_str(), kEntryName) != 0) continue;
    if (entry->buffer() >= model->buffers()->size()) return false;
    const auto* data = model->buffers()->Get(entry->buffer())->data();
    if (data == nullptr) return false;
    *begin = reinterpret_cast<const char*>(data->data());
    *end = *begin + data->size();
    return true;
  }
  return false;
}

uint32_t Elements(const tflite::Tensor* tensor) {
  uint32_t size = 1;
  for (uint32_t i = 0; tensor->shape() != nullptr && i < tensor->shape()->size(); ++i) {
    size *= static_cast<uint32_t>(tensor->shape()->Get(i));
  }
  return size;
}

// Median of a tensor's scales, as NumPy has it.
double MedianScale(const tflite::Tensor* tensor) {
  const auto* scales = tensor->quantization()->scale();
  const uint32_t n = scales->size();
  double middle[2] = {0, 0};
  for (uint32_t which = 0; which < 2; ++which) {
    const uint32_t rank = which == 0 ? (n - 1) / 2 : n / 2;
    for (uint32_t i = 0; i < n; ++i) {
      uint32_t below = 0, same = 0;
      for (uint32_t k = 0; k < n; ++k) {
        below += scales->Get(k) < scales->Get(i) ? 1 : 0;
        same += scales->Get(k) == scales->Get(i) ? 1 : 0;
      }
      if (below <= rank && rank < below + same) middle[which] = static_cast<double>(scales->Get(i));
    }
  }
  return (middle[0] + middle[1]) / 2;
}

bool HasScale(const tflite::Tensor* tensor) {
  return tensor->quantization() != nullptr && tensor->quantization()->scale() != nullptr &&
         tensor->quantization()->scale()->size() > 0;
}

bool Describe(const tflite::Model* model, const JsonCursor& item, TrainableTensor* out) {
  const auto* graph = model->subgraphs()->Get(0);
  JsonCursor value = item;
  if (!item.Find("tensor", &value) || !value.Integer(&out->tensor)) return false;
  if (!item.Find("op", &value) || !value.Integer(&out->op)) return false;
  if (!item.Find("kind", &value)) return false;
  out->is_bias = value.Is("bias");
  if (!out->is_bias && !value.Is("weight")) return false;
  if (out->tensor < 0 || static_cast<uint32_t>(out->tensor) >= graph->tensors()->size() ||
      out->op < 0 || static_cast<uint32_t>(out->op) >= graph->operators()->size()) {
    return false;
  }
  const auto* tensor = graph->tensors()->Get(static_cast<uint32_t>(out->tensor));
  const auto type = out->is_bias ? tflite::TensorType_INT32 : tflite::TensorType_INT8;
  if (tensor->type() != type || tensor->buffer() >= model->buffers()->size()) return false;
  const auto* data = model->buffers()->Get(tensor->buffer())->data();
  out->size = Elements(tensor);
  if (data == nullptr || data->size() != out->size * (out->is_bias ? 4u : 1u)) return false;
  out->initial = data->data();
  out->unit = 1;
  if (out->is_bias) {
    const auto* op = graph->operators()->Get(static_cast<uint32_t>(out->op));
    const auto* result = graph->tensors()->Get(static_cast<uint32_t>(op->outputs()->Get(0)));
    if (!HasScale(tensor) || !HasScale(result)) return false;
    const double ratio =
        static_cast<double>(result->quantization()->scale()->Get(0)) / MedianScale(tensor);
    out->unit = ratio < 1.5 ? 1 : static_cast<int32_t>(ratio + 0.5);
  }
  return true;
}

}  // namespace

ListStatus FindTrainable(const tflite::Model* model, TrainableList* list) {
  const auto* graph = model->subgraphs()->Get(0);
  const char *begin, *end;
  if (!FindEntry(model, &begin, &end)) return ListStatus::kNoEntry;
  const JsonCursor root(begin, end);
  JsonCursor items = root, options = root, logits = root;
  list->count = 0;
  if (!root.Find("trainable", &items) || !items.Enter()) return ListStatus::kDamaged;
  while (items.AtElement()) {
    if (list->count == kMaxTrainable) return ListStatus::kTooMany;
    if (!Describe(model, items, &list->tensors[list->count++])) return ListStatus::kDamaged;
    if (!items.Next()) return ListStatus::kDamaged;
  }
  if (list->count == 0) return ListStatus::kNothing;
  list->logits = graph->outputs()->Get(0);
  if (root.Find("options", &options) && options.Find("logits", &logits) &&
      !logits.Integer(&list->logits)) {
    return ListStatus::kDamaged;
  }
  if (list->logits < 0 || static_cast<uint32_t>(list->logits) >= graph->tensors()->size()) {
    return ListStatus::kDamaged;
  }
  const auto* tensor = graph->tensors()->Get(static_cast<uint32_t>(list->logits));
  if (tensor->type() != tflite::TensorType_INT8 || !HasScale(tensor)) return ListStatus::kDamaged;
  list->classes = static_cast<int32_t>(Elements(tensor));
  list->logits_scale = tensor->quantization()->scale()->Get(0);
  return ListStatus::kOk;
}

}  // namespace tflm_train
