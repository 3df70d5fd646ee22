#include "compiler/layout/layout_index.h"

namespace ucp {

LayoutIndex::LayoutIndex(const Layout& layout) {
  tensors_.reserve(layout.tensors.size());
  for (const TensorLayout& tensor : layout.tensors) tensors_.emplace(tensor.name, &tensor);
  // A name counts before any alias, and of equal aliases the first.
  for (const TensorLayout& tensor : layout.tensors) {
    for (const std::string& alias : tensor.aliases) tensors_.emplace(alias, &tensor);
  }
}

const TensorLayout* LayoutIndex::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

}  // namespace ucp
