// diagnostic_pages [--rewrite] FOLDER: docs/diagnostics has a page for each kind of diagnostic and no other, and the
// spec in a page gives that diagnostic only, in the words that stand below it. --rewrite corrects those words.
#include <fmt/format.h>
#include <llvm/Support/MemoryBuffer.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "compiler/command_line/option_names.h"
#include "compiler/diagnostics/render.h"
#include "compiler/support/error.h"
#include "tests/golden/check_phases.h"

namespace {

constexpr std::string_view kSpecMark = "```ucp\n";
constexpr std::string_view kOutputMark = "```text\n";
constexpr std::string_view kEndMark = "\n```\n";

// Kinds whose smallest example is too long for a page, and why.
constexpr std::string_view kWithoutExample = "too-many-errors";  // It takes 50 errors.

// The half-open range of what stands between `mark` and the next end of a block.
struct Block {
  std::size_t begin = std::string::npos;
  std::size_t end = 0;
};

Block FindBlock(const std::string& page, std::string_view mark) {
  std::size_t begin = page.find(mark);
  if (begin == std::string::npos) return {};
  begin += mark.size();
  std::size_t end = page.find(kEndMark, begin - 1);  // An empty block ends with the mark's own line break.
  if (end == std::string::npos) return {};
  return {begin, end + 1};
}

bool NeedsCheckpoint(std::string_view spec) {
  for (std::string_view mark : {"// tensor: ", "// mesh: ", "// fact: ", "// set: "}) {
    if (spec.find(mark) != std::string_view::npos) return true;
  }
  return false;
}

// The page as it should be.
llvm::Expected<std::string> RunPage(const std::string& kind, std::string page) {
  if (kind == kWithoutExample) return page;
  Block spec = FindBlock(page, kSpecMark);
  Block output = FindBlock(page, kOutputMark);
  if (spec.begin == std::string::npos || output.begin == std::string::npos) {
    return ucp::Fail(ucp::ErrorCode::kSpec, "`{}.md` has no block `ucp` with a spec, or no block `text` below it",
                     kind);
  }
  UCP_ASSIGN_OR_RETURN(auto source, ucp::Source::FromText("spec.ucp", page.substr(spec.begin, spec.end - spec.begin)));
  ucp::DiagnosticSink sink;
  bool warns = kind == "pattern-matches-nothing" || kind == "two-readings";  // Binding alone looks for neither.
  (NeedsCheckpoint(source.text()) ? ucp::golden::RunBind : ucp::golden::RunCheck)(source, warns ? "warn" : "", sink);
  std::string said = ucp::RenderText(source, sink);
  std::vector<ucp::Diagnostic> diagnostics = sink.Sorted();
  bool only_this_kind = !diagnostics.empty();
  for (const ucp::Diagnostic& diagnostic : diagnostics) {
    only_this_kind = only_this_kind && ucp::Describe(diagnostic.kind).name == kind;
  }
  if (!only_this_kind) {
    return ucp::Fail(ucp::ErrorCode::kSpec,
                     "the spec in `{}.md` should give this diagnostic and no other, and gives\n{}", kind, said);
  }
  return page.replace(output.begin, output.end - output.begin, said);
}

llvm::Error CheckPage(const std::filesystem::path& path, const std::string& kind, bool rewrite) {
  auto buffer = llvm::MemoryBuffer::getFile(path.string());
  if (!buffer) {
    return ucp::Fail(ucp::ErrorCode::kIo, "the kind `{}` has no page: write `{}`, as its neighbours are", kind,
                     path.string());
  }
  std::string page = (*buffer)->getBuffer().str();
  if (!page.starts_with("# " + kind + "\n")) {
    return ucp::Fail(ucp::ErrorCode::kSpec, "`{}` does not begin with `# {}`", path.string(), kind);
  }
  UCP_ASSIGN_OR_RETURN(std::string right, RunPage(kind, page));
  if (right == page) return llvm::Error::success();
  if (!rewrite) {
    return ucp::Fail(ucp::ErrorCode::kSpec,
                     "`{}` is not what the compiler says; the target golden_rewrite mends it:\n{}", path.string(),
                     right);
  }
  std::ofstream(path) << right;
  fmt::print("rewrote {}\n", path.string());
  return llvm::Error::success();
}

bool IsKind(const std::string& name) {
  for (const ucp::DiagnosticKindInfo& info : ucp::AllDiagnosticKinds()) {
    if (info.name == name) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  ucp::SpellOptionsBy(ucp::CommandLineOption);  // As the programs print them.
  bool rewrite = argc > 2 && std::strcmp(argv[1], "--rewrite") == 0;
  std::filesystem::path folder = argv[argc - 1];
  int failures = 0;
  for (const ucp::DiagnosticKindInfo& info : ucp::AllDiagnosticKinds()) {
    std::string kind(info.name);
    if (llvm::Error error = CheckPage(folder / (kind + ".md"), kind, rewrite)) {
      fmt::print(stderr, "{}\n", ucp::TakeFailure(std::move(error)).message);
      ++failures;
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (IsKind(entry.path().stem().string())) continue;
    fmt::print(stderr, "`{}` is a page of no kind of diagnostic\n", entry.path().string());
    ++failures;
  }
  return failures == 0 ? 0 : 1;
}
