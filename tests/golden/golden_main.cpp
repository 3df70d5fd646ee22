// golden_runner [--rewrite] FILE…: runs golden files and compares all that the compiler says with what they expect.
// With
// --rewrite it corrects them instead; then read the difference as carefully as code.
#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "compiler/support/error.h"
#include "tests/golden/run_case.h"

namespace {

using ucp::golden::GoldenCase;

// The first line that differs, and both files behind it.
std::string FirstDifference(const std::string& expected, const std::string& actual) {
  std::istringstream left(expected);
  std::istringstream right(actual);
  std::string a;
  std::string b;
  for (int line = 1;; ++line) {
    bool has_a = static_cast<bool>(std::getline(left, a));
    bool has_b = static_cast<bool>(std::getline(right, b));
    if (!has_a && !has_b) return "the files differ in line breaks only\n";
    if (has_a && has_b && a == b) continue;
    return fmt::format("line {}:\n  expected: {}\n  actual:   {}\n", line, has_a ? a : "(end of file)",
                       has_b ? b : "(end of file)");
  }
}

llvm::Error RunFile(const std::string& path, bool rewrite) {
  UCP_ASSIGN_OR_RETURN(GoldenCase golden, ucp::golden::ReadGoldenCase(path));
  UCP_ASSIGN_OR_RETURN(auto result, ucp::golden::RunCase(golden));
  if (result.text == golden.text) return llvm::Error::success();
  if (!rewrite) {
    return ucp::Fail(ucp::ErrorCode::kBadData, "`{}` is not what the compiler says; {}\nthe whole of it:\n{}", path,
                     FirstDifference(golden.text, result.text), result.text);
  }
  std::ofstream(path) << result.text;
  fmt::print("rewrote {}\n", path);
  return llvm::Error::success();
}

}  // namespace

int main(int argc, char** argv) {
  bool rewrite = argc > 1 && std::strcmp(argv[1], "--rewrite") == 0;
  int failures = 0;
  for (int i = rewrite ? 2 : 1; i < argc; ++i) {
    if (llvm::Error error = RunFile(argv[i], rewrite)) {
      fmt::print(stderr, "{}\n", ucp::TakeFailure(std::move(error)).message);
      ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}
