// What a layout means, in words: for each tensor its declaration, its whole shape, and who holds which part of it.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <string>

#include "compiler/check/bind.h"
#include "compiler/layout/inventory.h"
#include "compiler/layout/layout.h"

namespace ucp {

struct ExplainRequest {
  const Layout& layout;
  const BoundSpec* bound = nullptr;      // For the values of the dims; null without a spec.
  const Inventory* inventory = nullptr;  // Null without a checkpoint.
  std::string tensor_glob = "*";
};

// Calls `line` for each line; false from it ends the listing. Fails (kUsage) if the glob is ill-formed or matches
// nothing.
[[nodiscard]] llvm::Error Explain(const ExplainRequest& request, llvm::function_ref<bool(const std::string&)> line);

}  // namespace ucp
