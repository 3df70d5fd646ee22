// Whether two layouts mean the same, whichever way they are written.
#pragma once

#include <llvm/Support/Error.h>

#include <optional>
#include <string>

#include "compiler/layout/layout.h"

namespace ucp {

// Returns whether both say the same of who holds which element, of its mean and of its scale. Their names, stages and
// places of names are not looked at.
llvm::Expected<bool> AreCutAlike(const TensorLayout& a, const TensorLayout& b, const Mesh& mesh);

// Returns whether two layouts on one mesh say the same of every tensor: its shape, who holds which part, and what
// becomes of its copies. Returns nothing if they do, else the name of a tensor of which they do not.
llvm::Expected<std::optional<std::string>> DifferentTensor(const Layout& a, const Layout& b);

}  // namespace ucp
