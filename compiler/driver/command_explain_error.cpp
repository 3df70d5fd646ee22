// `ucpc explain-error`: what a kind of diagnostic means. The pages come with the program.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/command_line/terminal.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/diagnostics/pages.h"
#include "compiler/driver/commands.h"
#include "compiler/support/error.h"
#include "compiler/support/spelling.h"

namespace ucp {
namespace {

llvm::Error ListKinds() {
  std::size_t width = 0;
  for (const DiagnosticKindInfo& info : AllDiagnosticKinds()) width = std::max(width, info.name.size());
  for (const DiagnosticKindInfo& info : AllDiagnosticKinds()) {
    PrintLine(fmt::format("{:<{}}  {}{}", info.name, width, info.severity == Severity::kWarning ? "(warning) " : "",
                          info.summary));
  }
  return llvm::Error::success();
}

llvm::Error ExplainError(const std::optional<std::string>& given) {
  if (!given) return ListKinds();
  const std::string& kind = *given;
  std::string_view page = DiagnosticPage(kind);
  if (page.empty()) {
    std::vector<std::string> kinds;
    for (const DiagnosticKindInfo& info : AllDiagnosticKinds()) kinds.emplace_back(info.name);
    std::optional<std::string> nearest = NearestWord(kind, kinds);
    return Fail(ErrorCode::kUsage, "there is no kind of diagnostic `{}`; {}", kind,
                nearest ? fmt::format("did you mean `{}`?", *nearest) : "`ucpc explain-error` lists them all");
  }
  PrintVerbatim(page);
  return llvm::Error::success();
}

}  // namespace

void AddExplainErrorCommand(CLI::App& app, int& exit_code) {
  auto kind = std::make_shared<std::optional<std::string>>();
  CLI::App* command = app.add_subcommand(
      "explain-error", "Say what a kind of diagnostic means, with an example, how to mend it, and why the rule exists");
  command->footer(
      "  ucpc explain-error uneven-cut\n"
      "  ucpc explain-error              lists all kinds");
  command->add_option("KIND", *kind, "The word in brackets behind a message");
  command->callback([kind, &exit_code] {
    if (llvm::Error error = ExplainError(*kind)) exit_code = ShowError("ucpc", std::move(error));
  });
}

}  // namespace ucp
