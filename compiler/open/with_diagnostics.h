// A failure of the first phases as one text, for a caller of the library, which prints nothing.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/open/opened_spec.h"

namespace ucp {

// The error, and behind its sentence the diagnostics of the spec, if there is one and it is wrong.
[[nodiscard]] llvm::Error WithDiagnostics(llvm::Error error, const OpenedSpec& spec);

// Does the same in two steps, where the spec is gone when the error comes: its errors as text, empty if it has none.
std::string ErrorsOf(const SpecSession& spec);
[[nodiscard]] llvm::Error WithDiagnostics(llvm::Error error, const std::string& errors_of_spec);

}  // namespace ucp
