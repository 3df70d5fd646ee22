// golden_coverage FILE…: fails, with a list, if some kind of diagnostic or some alternative of the tree is shown by
// none of the golden files.
#include <fmt/format.h>

#include <array>
#include <set>
#include <string>
#include <string_view>

#include "compiler/parse/parse.h"
#include "compiler/support/error.h"
#include "tests/golden/run_case.h"
#include "tests/golden/shown_alternatives.h"

namespace {

// Kinds that a golden file cannot show well, and who shows them instead.
struct Exempt {
  std::string_view kind;
  std::string_view shown_by;
};
constexpr std::array kExempt = {
    Exempt{"too-many-errors", "tests/unit/compiler/parse: it takes 50 errors"},
    Exempt{"nesting-too-deep", "tests/unit/compiler/parse: it takes 201 brackets"},
};

struct Shown {
  std::set<std::string> kinds;
  std::set<std::string> alternatives;
};

llvm::Error AddFile(const std::string& path, Shown& shown) {
  UCP_ASSIGN_OR_RETURN(auto golden, ucp::golden::ReadGoldenCase(path));
  UCP_ASSIGN_OR_RETURN(auto result, ucp::golden::RunCase(golden));
  for (const ucp::Diagnostic& diagnostic : result.sink.Sorted()) {
    shown.kinds.emplace(ucp::Describe(diagnostic.kind).name);
  }
  if (golden.phase != "parse") return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(auto spec, ucp::Source::FromText(path, golden.spec));
  ucp::DiagnosticSink ignored;
  if (auto file = ucp::ParseSpec(spec, ignored)) ucp::golden::CollectAlternatives(*file, shown.alternatives);
  return llvm::Error::success();
}

}  // namespace

int main(int argc, char** argv) {
  Shown shown;
  for (const Exempt& exempt : kExempt) shown.kinds.emplace(exempt.kind);
  int missing = 0;
  for (int i = 1; i < argc; ++i) {
    if (llvm::Error error = AddFile(argv[i], shown)) {
      fmt::print("{}\n", ucp::Describe(std::move(error)).message);
      ++missing;
    }
  }
  for (const ucp::DiagnosticKindInfo& info : ucp::AllDiagnosticKinds()) {
    if (shown.kinds.contains(std::string(info.name))) continue;
    fmt::print("no golden file shows the diagnostic `{}` ({})\n", info.name, info.summary);
    ++missing;
  }
  for (const std::string& alternative : ucp::golden::AllAlternatives()) {
    if (shown.alternatives.contains(alternative)) continue;
    fmt::print("no golden file of the phase `parse` shows `{}`\n", alternative);
    ++missing;
  }
  return missing == 0 ? 0 : 1;
}
