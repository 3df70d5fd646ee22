#include "compiler/open/opened_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/check/check_spec.h"
#include "compiler/diagnostics/render.h"
#include "compiler/open/check_strategies.h"
#include "compiler/parse/include.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

OpenedSpec Open(Source source, const IncludableTexts* texts) {
  auto session = std::make_shared<SpecSession>();
  std::optional<ast::File> tree = ParseWithIncludes(source, session->sink, texts);
  session->source = std::make_shared<const Source>(std::move(source));
  if (!tree) return session;
  session->checked = CheckSpec(*tree, *session->source, session->sink);
  CheckAgainstFormats(*tree, session->sink);
  if (session->sink.has_errors()) session->checked.reset();
  return session;
}

}  // namespace

llvm::Expected<OpenedSpec> OpenSpec(const std::string& path) {
  UCP_ASSIGN_OR_RETURN(Source source, Source::FromFile(path));
  return Open(std::move(source), nullptr);
}

llvm::Expected<OpenedSpec> OpenSpec(const std::vector<NamedText>& texts) {
  UCP_CHECK(!texts.empty(), "there is no spec");
  UCP_ASSIGN_OR_RETURN(Source source, Source::FromText(texts.front().name, texts.front().text));
  IncludableTexts included;
  for (const NamedText& text : texts) included.emplace(text.name, text.text);
  return Open(std::move(source), &included);
}

std::vector<NamedText> TextsOf(const SpecSession& session) {
  const std::string& main = session.source->path();
  const std::size_t folder_bytes = main.rfind('/') + 1;  // npos + 1 is 0.
  std::vector<NamedText> texts;
  for (const Source::FileText& file : session.source->Files()) {
    const bool is_in_folder = file.path.starts_with(std::string_view(main).substr(0, folder_bytes));
    NamedText text{std::string(file.path.substr(is_in_folder ? folder_bytes : 0)), std::string(file.text)};
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
  }
  return texts;
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
