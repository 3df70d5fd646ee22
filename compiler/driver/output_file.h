// Files that `ucpc` writes beside its reports: plans and pages.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

namespace ucp {

// Under another name first, so that the file is whole or not there; one that exists is replaced. `what` names it in the
// message: "the plan".
[[nodiscard]] llvm::Error WriteOutputFile(const std::string& what, const std::string& path, const std::string& bytes);

}  // namespace ucp
