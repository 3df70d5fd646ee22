// How a person names one element: `layers.0.up.weight[17,204]` in all states, `layers.0.up.weight[17,204].exp_avg` in
// one. Names of tensors hold dots, and may hold brackets; so the last pair of brackets counts, and the state stands
// behind it.
#pragma once

#include <llvm/Support/Error.h>

#include <string>
#include <string_view>
#include <vector>

#include "compiler/sets/product_set.h"

namespace ucp {

struct ElementName {
  std::string tensor;
  Index index;
  std::string state;  // Empty: all.
  bool operator==(const ElementName&) const = default;
};

// Fails with kUsage for another text.
llvm::Expected<ElementName> ParseElementName(std::string_view text);

// Fails with kUsage if `index` lies outside of the tensor.
[[nodiscard]] llvm::Error CheckIndex(const ElementName& name, const std::vector<std::int64_t>& shape);

}  // namespace ucp
