#include "compiler/driver/spec_phase.h"

#include "compiler/parse/include.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<std::unique_ptr<SpecSession>> OpenSpec(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(Source source, Source::FromFile(path));
  auto session = std::make_unique<SpecSession>();
  std::optional<ast::File> tree = ParseWithIncludes(source, session->sink);
  session->source = std::make_shared<const Source>(std::move(source));
  if (tree) session->checked = CheckSpec(*tree, *session->source, session->sink);
  return session;
}

llvm::Error SpecErrors(const SpecSession& session) {
  std::size_t count = session.sink.error_count();
  return Fail(ErrorCode::kSpec, "{} error{} in `{}`", count, count == 1 ? "" : "s", session.source->path());
}

}  // namespace ucp
