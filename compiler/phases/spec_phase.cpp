#include "compiler/phases/spec_phase.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/diagnostics/render.h"
#include "compiler/parse/include.h"
#include "compiler/phases/check_strategies.h"
#include "compiler/support/error.h"

namespace ucp {

llvm::Expected<std::unique_ptr<SpecSession>> OpenSpec(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(Source source, Source::FromFile(path));
  auto session = std::make_unique<SpecSession>();
  std::optional<ast::File> tree = ParseWithIncludes(source, session->sink);
  session->source = std::make_shared<const Source>(std::move(source));
  if (!tree) return session;
  session->checked = CheckSpec(*tree, *session->source, session->sink);
  CheckAgainstFormats(*tree, session->sink);
  if (session->sink.has_errors()) session->checked.reset();
  return session;
}

char SpecFailure::ID = 0;

llvm::Error SpecErrors(const SpecSession& session) {
  std::vector<Diagnostic> shown = session.sink.Sorted();
  auto count = std::count_if(shown.begin(), shown.end(),
                             [](const Diagnostic& diagnostic) { return diagnostic.severity() == Severity::kError; });
  std::string message = fmt::format("{}{} error{} in `{}`", session.sink.dropped_count() == 0 ? "" : "more than ",
                                    count, count == 1 ? "" : "s", session.source->path());
  return llvm::make_error<SpecFailure>(std::move(message), RenderJson(*session.source, session.sink));
}

}  // namespace ucp
