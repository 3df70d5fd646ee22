// The tensors of a layout by name: Layout::Find() for callers that look up thousands.
#pragma once

#include <llvm/ADT/CachedHashString.h>
#include <llvm/ADT/DenseMap.h>

#include <string_view>

#include "compiler/layout/layout.h"

namespace ucp {

class LayoutIndex {
 public:
  // The layout must outlive this, and its tensors stay where they are.
  explicit LayoutIndex(const Layout& layout);

  // Finds a tensor by name or alias; nullptr if there is none.
  const TensorLayout* Find(std::string_view name) const;

 private:
  llvm::DenseMap<llvm::CachedHashStringRef, const TensorLayout*> tensors_;
};

}  // namespace ucp
