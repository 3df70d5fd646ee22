// Running one golden case.
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/diagnostics/diagnostics.h"
#include "tests/golden/golden_case.h"

namespace ucp::golden {

struct CaseResult {
  DiagnosticSink sink;
  std::string text;  // The golden file as it should be.
};

llvm::Expected<CaseResult> RunCase(const GoldenCase& golden);

}  // namespace ucp::golden
