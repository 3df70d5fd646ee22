#include "tests/golden/run_case.h"

#include <algorithm>
#include <filesystem>

#include "compiler/command_line/option_names.h"
#include "compiler/support/error.h"
#include "tests/golden/phases.h"

namespace ucp::golden {

llvm::Expected<CaseResult> RunCase(const GoldenCase& golden) {
  SpellOptionsBy(CommandLineOption);  // A golden file shows what the programs print.
  auto phases = AllPhases();
  auto phase = std::find_if(phases.begin(), phases.end(), [&](const Phase& p) { return p.name == golden.phase; });
  if (phase == phases.end()) {
    return Fail(ErrorCode::kSpec, "`{}` asks for the phase `{}`, which tests/golden/phases.cpp does not have",
                golden.path, golden.phase);
  }
  UCP_ASSIGN_OR_RETURN(Source spec, Source::FromText(golden.path, golden.spec));
  CaseResult result;
  std::string output = phase->run(spec, golden.arguments, result.sink);
  result.text = WriteExpectations(spec, result.sink, output);
  bool named_fail = std::filesystem::path(golden.path).filename().string().starts_with("fail_");
  if (named_fail != result.sink.has_errors()) {
    return Fail(ErrorCode::kSpec, "`{}` has {} errors: the prefix `fail_` and errors come together\n{}", golden.path,
                result.sink.error_count(), result.text);
  }
  return result;
}

}  // namespace ucp::golden
