// How much of a plan's target is elements; headers and all that is ready-made come besides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/engine/share_out.h"

namespace ucp {

// That a rank writes.
std::uint64_t BytesOfElements(const Plan& plan, const TargetShare& share);

std::uint64_t Elements(const Plan& plan);  // Of all files.

struct BytesToDo {
  std::uint64_t all = 0;
  std::uint64_t left = 0;
};

// Of elements, and what is left of them after ExecutionOptions::progress_before; all, if that does not fit the plan.
BytesToDo BytesLeft(const Plan& plan, const TargetShare& share, const std::vector<std::string>& progress_before);

}  // namespace ucp
