// The work of a plan in numbers, for `ucpc plan` and `--dry-run`.
#pragma once

#include <llvm/Support/JSON.h>

#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

// Of a conversion that KeepsCuts().
inline constexpr const char* kCutsAreKept =
    "source and target have the same format, cuts and dtypes: a copy of the files has the same tensors";

std::vector<std::string> PlanReport(const Plan& plan);
llvm::json::Object PlanReportJson(const Plan& plan);
// Returns a list of {file, path, object, calls}.
llvm::json::Array LeftOutJson(const std::vector<LeftOut>& left_out);
// Returns the decisions of --prefer-rank: a list of {what, believed: {file, value}, overruled: {file, value},
// elements}.
llvm::json::Array DecisionsJson(const std::vector<RankDecision>& decisions);

}  // namespace ucp
