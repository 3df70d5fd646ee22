#include "compiler/phases/with_diagnostics.h"

#include "compiler/diagnostics/render.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Error WithDiagnostics(llvm::Error error, const SourcePhase& source) {
  if (!error || source.spec == nullptr || !source.spec->sink.has_errors()) return error;
  FailureText failure = Describe(std::move(error));
  return MakeError(failure.code, failure.message + "\n" + RenderText(*source.spec->source, source.spec->sink));
}

}  // namespace ucp
