// From a spec's text to its checked meaning: the phases that need no checkpoint.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/plan/plan_inputs.h"
#include "compiler/source/source.h"
#include "compiler/spec/spec.h"
#include "compiler/support/error.h"

namespace ucp {

// A spec on its way through the phases, with everything that is to be said about it.
struct SpecSession {
  std::shared_ptr<const Source> source;
  DiagnosticSink sink;
  std::optional<CheckedSpec> checked;  // Nothing if there are errors.
};

using OpenedSpec = std::shared_ptr<SpecSession>;

// Reads, parses and checks, with all files that it includes. An error is one of reading the file; the spec's own errors
// are in the sink.
llvm::Expected<OpenedSpec> OpenSpec(const std::string& path);

// Does the same for texts that were read before: the spec, and behind it the files that it includes.
llvm::Expected<OpenedSpec> OpenSpec(const std::vector<NamedText>& texts);

// Returns the texts that OpenSpec() has read, by their paths from the folder of the spec.
std::vector<NamedText> TextsOf(const SpecSession& session);

// "2 errors in `gpt.ucp`", with code kSpec, and all diagnostics for JSON.
class SpecFailure : public llvm::ErrorInfo<SpecFailure, Failure> {
 public:
  static char ID;  // NOLINT(readability-identifier-naming): the name LLVM's ErrorInfo asks for.

  SpecFailure(std::string message, llvm::json::Object diagnostics)
      : ErrorInfo(ErrorCode::kSpec, std::move(message)), diagnostics_(std::move(diagnostics)) {}

  const llvm::json::Object& diagnostics() const { return diagnostics_; }

 private:
  llvm::json::Object diagnostics_;
};

// Call if the sink has errors. They are counted as they are shown: each once.
[[nodiscard]] llvm::Error SpecErrors(const SpecSession& session);

}  // namespace ucp
