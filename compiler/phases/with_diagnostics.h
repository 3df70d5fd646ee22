// A failure of the first phases as one text, for who prints nothing: a library's caller.
#pragma once

#include <llvm/Support/Error.h>

#include "compiler/phases/source_phase.h"

namespace ucp {

// The error, and behind its sentence the diagnostics of the spec, if that is wrong.
[[nodiscard]] llvm::Error WithDiagnostics(llvm::Error error, const SourcePhase& source);

}  // namespace ucp
