// How much of a plan's target is elements; headers and all that is ready-made come besides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

// Of all files, or of those that are this rank's: `is_mine` is by FileId; empty: all are.
std::uint64_t BytesOfElements(const Plan& plan, const std::vector<bool>& is_mine);

std::uint64_t Elements(const Plan& plan);  // Of all files.

struct BytesToDo {
  std::uint64_t all = 0;
  std::uint64_t left = 0;
};

// Of elements, and what is left of them after ExecutionOptions::progress_before; all, if that does not fit the plan.
BytesToDo BytesLeft(const Plan& plan, const std::vector<bool>& is_mine,
                    const std::vector<std::string>& progress_before);

}  // namespace ucp
