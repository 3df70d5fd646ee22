// The tensors of a layout by name: Layout::Find() for those who ask for each of thousands.
#pragma once

#include <string_view>
#include <unordered_map>

#include "compiler/layout/layout.h"

namespace ucp {

class LayoutIndex {
 public:
  // The layout must outlive this, and its tensors stay where they are.
  explicit LayoutIndex(const Layout& layout);

  // By name or alias; nullptr if there is none.
  const TensorLayout* Find(std::string_view name) const;

 private:
  std::unordered_map<std::string_view, const TensorLayout*> tensors_;
};

}  // namespace ucp
