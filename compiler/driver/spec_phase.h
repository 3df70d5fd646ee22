// From a spec's text to its checked meaning: the phases that need no checkpoint.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <memory>
#include <string>

#include "compiler/check/spec.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/source/source.h"

namespace ucp {

// A spec on its way through the phases, with everything that is to be said about it.
struct SpecSession {
  std::shared_ptr<const Source> source;
  DiagnosticSink sink;
  std::optional<CheckedSpec> checked;  // Nothing if there are errors.
};

// Reads, parses and checks, with all files that it includes. An error is one of reading the file; what is wrong in it
// is in the sink.
llvm::Expected<std::unique_ptr<SpecSession>> OpenSpec(const std::string& path);

// "2 errors in `gpt.ucp`", as an error with code kSpec. Call if the sink has errors.
[[nodiscard]] llvm::Error SpecErrors(const SpecSession& session);

}  // namespace ucp
