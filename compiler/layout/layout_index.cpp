#include "compiler/layout/layout_index.h"

namespace ucp {

LayoutIndex::LayoutIndex(const Layout& layout) {
  tensors_.reserve(static_cast<unsigned>(layout.tensors.size()));
  for (const TensorLayout& tensor : layout.tensors) {
    tensors_.try_emplace(llvm::CachedHashStringRef(tensor.name), &tensor);
  }
  // A name counts before any alias, and of equal aliases the first.
  for (const TensorLayout& tensor : layout.tensors) {
    for (const std::string& alias : tensor.aliases) tensors_.try_emplace(llvm::CachedHashStringRef(alias), &tensor);
  }
}

const TensorLayout* LayoutIndex::Find(std::string_view name) const {
  return tensors_.lookup(llvm::CachedHashStringRef(name));
}

}  // namespace ucp
