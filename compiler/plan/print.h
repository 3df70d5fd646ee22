// The printed form of a plan: its tables and then one line a step, the same in `ucpc dump`, tests, messages and
// documents.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <string>
#include <string_view>

#include "compiler/plan/plan.h"

namespace ucp {

// Calls `line` for every line, without the line end. The plan must be verified.
void PrintPlan(const Plan& plan, llvm::function_ref<void(const std::string&)> line);

std::string_view Name(ReadRole role);  // "copy", "compare", "check", "unused"

}  // namespace ucp
