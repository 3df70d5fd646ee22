// Every spec in the repository that parses: its form means the same, has the same words in the same order, and is its
// own form.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/ast/print.h"
#include "compiler/parse/parse.h"
#include "compiler/pretty/pretty.h"

namespace ucp {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> AllSpecs() {
  std::vector<std::string> paths;
  for (const char* folder : {"/specs", "/tests/golden"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(std::string(UCP_SOURCE_DIR) + folder)) {
      if (entry.path().extension() == ".ucp") paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string WithoutBlanks(std::string_view text) {
  std::string rest;
  std::copy_if(text.begin(), text.end(), std::back_inserter(rest),
               [](char c) { return c != ' ' && c != '\t' && c != '\n' && c != '\r'; });
  return rest;
}

TEST(PrettySpecsTest, TheFormOfEverySpecMeansTheSameAndIsItsOwnForm) {
  std::size_t formatted = 0;
  for (const std::string& path : AllSpecs()) {
    SCOPED_TRACE(path);
    Source source = llvm::cantFail(Source::FromFile(path));
    DiagnosticSink sink;
    auto file = ParseSpec(source, sink);
    if (!file) continue;
    ++formatted;
    Source form = llvm::cantFail(Source::FromText(path, Pretty(source, *file)));
    auto again = ParseSpec(form, sink);
    ASSERT_TRUE(again);
    EXPECT_EQ(ast::Print(*again), ast::Print(*file));
    EXPECT_EQ(WithoutBlanks(form.text()), WithoutBlanks(source.text()));
    EXPECT_EQ(Pretty(form, *again), form.text());
  }
  EXPECT_GT(formatted, 40U);
}

}  // namespace
}  // namespace ucp
