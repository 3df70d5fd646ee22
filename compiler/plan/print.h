// The printed form of a plan: its tables and then one line a step, the same in `ucpc dump`, tests, messages and
// documents.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include <string>
#include <string_view>

#include "compiler/plan/plan.h"
#include "compiler/plan/plan_inputs.h"

namespace ucp {

// Calls `line` for every line, without the line end. The plan must be verified.
void PrintPlan(const Plan& plan, llvm::function_ref<void(const std::string&)> line);

// The inputs, as they would be typed, and behind the name of each file its text.
void PrintInputs(const PlanInputs& inputs, llvm::function_ref<void(const std::string&)> line);

// ", for ranks 0, 2-4 of 8"; nothing if every rank opens it.
std::string ReadersText(const Plan& plan, FileId file);

std::string_view Name(ReadRole role);  // "copy", "compare", "check", "unused"

}  // namespace ucp
