// `ucpc fmt`: formats specs. A file is replaced as a whole or not at all, and only if the new text means the same as
// the old one.
#include <fmt/format.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "compiler/ast/print.h"
#include "compiler/catalogue/catalogue.h"
#include "compiler/command_line/terminal.h"
#include "compiler/command_line/write_file.h"
#include "compiler/driver/commands.h"
#include "compiler/open/opened_spec.h"
#include "compiler/parse/parse.h"
#include "compiler/pretty/pretty.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

struct FmtOptions {
  std::vector<std::string> specs;
  bool check = false;
};

llvm::Expected<Source> ReadSpec(const std::string& path) {
  if (path != "-") {
    UCP_ASSIGN_OR_RETURN(std::string found, FindSpec(path));
    return Source::FromFile(found);
  }
  auto input = llvm::MemoryBuffer::getSTDIN();
  if (!input) return Fail(ErrorCode::kIo, "cannot read standard input: {}", SystemReason(input.getError()));
  return Source::FromText("standard input", (*input)->getBuffer().str());
}

// The formatted text. The formatter moves words and changes none, so anything but an equal tree is its mistake.
llvm::Expected<std::string> Format(const Source& source) {
  SpecSession session;
  session.source = std::make_shared<const Source>(source);
  std::optional<ast::File> tree = ParseSpec(source, session.sink);
  ShowDiagnostics(session);
  if (!tree) return SpecErrors(session);
  std::string text = Pretty(source, *tree);
  UCP_ASSIGN_OR_RETURN(Source formatted, Source::FromText(source.path(), text));
  DiagnosticSink sink;
  std::optional<ast::File> again = ParseSpec(formatted, sink);
  UCP_CHECK(again && ast::Print(*again) == ast::Print(*tree), "`{}` would mean something else when formatted",
            source.path());
  return text;
}

// A symbolic link stays one: what it leads to is replaced.
llvm::Error Replace(const std::string& path, const std::string& text) {
  llvm::SmallString<256> target;
  std::error_code error = llvm::sys::fs::real_path(path, target);
  if (!error && !llvm::sys::fs::is_regular_file(target)) error = std::make_error_code(std::errc::not_supported);
  if (error) return Fail(ErrorCode::kIo, "cannot write `{}`: {}; it stays as it was", path, SystemReason(error));
  llvm::Error unwritten = WriteOutput({OutputPlace::Kind::kReplaced, std::string(target), "the spec"}, text);
  if (!unwritten) return unwritten;
  const auto [code, message] = TakeFailure(std::move(unwritten));
  return Fail(code, "{}; it stays as it was", message);
}

// One spec. Sets `differs` if its text is not formatted.
llvm::Error FmtOne(const std::string& path, bool check, bool& differs) {
  UCP_ASSIGN_OR_RETURN(Source source, ReadSpec(path));
  UCP_ASSIGN_OR_RETURN(std::string text, Format(source));
  differs = text != source.text();
  if (check) {
    if (differs) PrintLine(source.path());
    return llvm::Error::success();
  }
  if (path != "-") return differs ? Replace(source.path(), text) : llvm::Error::success();
  PrintVerbatim(text);
  return llvm::Error::success();
}

// All of them, whatever is wrong with some; the worst exit code.
int Fmt(const FmtOptions& options) {
  int exit_code = 0;
  std::size_t differing = 0;
  for (const std::string& path : options.specs) {
    bool differs = false;
    if (llvm::Error error = FmtOne(path, options.check, differs)) {
      exit_code = std::max(exit_code, ShowError("ucpc", std::move(error)));
    }
    if (differs) ++differing;
  }
  if (!options.check || differing == 0) return exit_code;
  llvm::Error error =
      Fail(ErrorCode::kSpec, "{} not formatted; `ucpc fmt` rewrites {}",
           differing == 1 ? "1 spec is" : fmt::format("{} specs are", differing), differing == 1 ? "it" : "them");
  return std::max(exit_code, ShowError("ucpc", std::move(error)));
}

}  // namespace

void AddFmtCommand(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<FmtOptions>();
  CLI::App* command = app.add_subcommand("fmt", "Format specs: only blanks and line breaks change");
  command->footer(
      "  ucpc fmt gpt.ucp              rewrites the file, if it would change\n"
      "  ucpc fmt --check specs/*.ucp  lists what would change; if any, exit code 1\n"
      "  ucpc fmt - < gpt.ucp          from standard input to standard output\n\n"
      "A spec with syntax errors is left alone. There are no options of style.");
  command->add_option("FILE", options->specs, ".ucp files, names of the catalogue, or - for standard input")
      ->required();
  command->add_flag("--check", options->check,
                    "Write nothing; list the specs that would change, and exit with 1 if there are some");
  command->callback([options, &exit_code] { exit_code = Fmt(*options); });
}

}  // namespace ucp
