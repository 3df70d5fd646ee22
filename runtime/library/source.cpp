#include "ucp/source.h"

#include "compiler/open/with_diagnostics.h"
#include "compiler/support/error.h"
#include "runtime/inspect/inspection.h"
#include "runtime/library/call.h"

namespace ucp {

SourceTexts TextsOf(const LoadSource& source) {
  return {source.path, source.spec, source.config, source.sets, source.unused, source.drop_states, source.prefer_rank};
}

llvm::Expected<SourceRequest> RequestOf(const LoadSource& source, Communicator& ranks) {
  llvm::Expected<SourceRequest> request = TextsOf(source).Request();
  UCP_RETURN_IF_ERROR(Agree(ranks, request ? llvm::Error::success() : request.takeError()));
  return request;
}

inline namespace v0 {

std::string InspectAsJson(const LoadSource& source, const std::string& tensors) {
  OpenedSpec spec;
  llvm::Expected<Inspection> inspection = Inspect(RealFiles(), TextsOf(source), tensors, spec);
  if (!inspection) ThrowIf(WithDiagnostics(inspection.takeError(), spec));
  return InspectionAsJson(*inspection);
}

}  // namespace v0
}  // namespace ucp
