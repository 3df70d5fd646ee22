#include "compiler/open/with_diagnostics.h"

#include "compiler/diagnostics/render.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Error WithDiagnostics(llvm::Error error, const OpenedSpec& spec) {
  return WithDiagnostics(std::move(error), spec == nullptr ? "" : ErrorsOf(*spec));
}

std::string ErrorsOf(const SpecSession& spec) {
  return spec.sink.has_errors() ? RenderText(*spec.source, spec.sink) : "";
}

llvm::Error WithDiagnostics(llvm::Error error, const std::string& errors_of_spec) {
  if (!error || errors_of_spec.empty()) return error;
  FailureText failure = TakeFailure(std::move(error));
  return MakeError(failure.code, failure.message + "\n" + errors_of_spec);
}

}  // namespace ucp
