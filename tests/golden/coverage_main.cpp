// golden_coverage LANGUAGE FILE…: fails, with a list, if some kind of diagnostic, some alternative of the tree, or some
// row of the table in LANGUAGE (docs/language.md) is shown by none of the golden files. A row is shown by files that
// the checker accepts.
#include <fmt/format.h>
#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include "compiler/parse/parse.h"
#include "compiler/support/error.h"
#include "tests/golden/language_rows.h"
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
// The same for rows of the language.
constexpr std::array kExemptRows = {
    Exempt{"include", "tests/programs/test_include.py: it takes two files"},
};

struct Shown {
  std::set<std::string> kinds;
  std::set<std::string> alternatives;  // By the phase that prints the tree.
  std::set<std::string> accepted;      // Alternatives, by phases that check, without errors.
};

llvm::Error AddFile(const std::string& path, Shown& shown) {
  UCP_ASSIGN_OR_RETURN(auto golden, ucp::golden::ReadGoldenCase(path));
  UCP_ASSIGN_OR_RETURN(auto result, ucp::golden::RunCase(golden));
  for (const ucp::Diagnostic& diagnostic : result.sink.Sorted()) {
    shown.kinds.emplace(ucp::Describe(diagnostic.kind).name);
  }
  bool parses = golden.phase == "parse";
  if (!parses && result.sink.has_errors()) return llvm::Error::success();
  UCP_ASSIGN_OR_RETURN(auto spec, ucp::Source::FromText(path, golden.spec));
  ucp::DiagnosticSink ignored;
  auto file = ucp::ParseSpec(spec, ignored);
  if (file) ucp::golden::CollectAlternatives(*file, parses ? shown.alternatives : shown.accepted);
  return llvm::Error::success();
}

// Returns how many rows are missing.
int CompareRows(const std::string& language, const Shown& shown) {
  int missing = 0;
  std::set<std::string> pages;
  for (const std::string& page : ucp::golden::PagesOfTable(language)) pages.insert(page);
  for (const ucp::golden::LanguageRow& row : ucp::golden::LanguageRows()) {
    if (pages.erase(row.page) == 0) {
      fmt::print("the language's table has no row `{}`, and tests/golden/language_rows.cpp has\n", row.page);
      ++missing;
    }
    bool exempt = std::any_of(kExemptRows.begin(), kExemptRows.end(),
                              [&](const Exempt& exempt_row) { return exempt_row.kind == row.page; });
    for (const std::string& alternative : row.alternatives) {
      if (exempt || shown.accepted.contains(alternative)) continue;
      fmt::print("no golden file that checks without errors shows `{}` of the row `{}`\n", alternative, row.page);
      ++missing;
    }
  }
  for (const std::string& page : pages) {
    fmt::print("the row `{}` of the language's table is not in tests/golden/language_rows.cpp\n", page);
    ++missing;
  }
  return missing;
}

}  // namespace

int main(int argc, char** argv) {
  Shown shown;
  for (const Exempt& exempt : kExempt) shown.kinds.emplace(exempt.kind);
  int missing = 0;
  for (int i = 2; i < argc; ++i) {
    if (llvm::Error error = AddFile(argv[i], shown)) {
      fmt::print("{}\n", ucp::TakeFailure(std::move(error)).message);
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
  auto language = llvm::MemoryBuffer::getFile(argc > 1 ? argv[1] : "");
  if (!language) {
    fmt::print("usage: golden_coverage LANGUAGE FILE…\n");
    return 2;
  }
  missing += CompareRows((*language)->getBuffer().str(), shown);
  return missing == 0 ? 0 : 1;
}
