// Counts the elements in the target of a plan. Headers and other ready-made bytes are not counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"
#include "runtime/engine/share_out.h"

namespace ucp {

// Returns how many bytes of elements the rank with this share writes.
std::uint64_t BytesOfElements(const Plan& plan, const TargetShare& share);

// Returns the number of elements in all files of the target.
std::uint64_t Elements(const Plan& plan);

struct BytesToDo {
  std::uint64_t all = 0;
  std::uint64_t left = 0;
};

// Returns the bytes of elements that the rank with this share writes, and how many of them an earlier run has not done
// (ExecutionOptions::progress_before). If that progress does not fit the plan, all of them are left.
BytesToDo BytesLeft(const Plan& plan, const TargetShare& share, const std::vector<std::string>& progress_before);

}  // namespace ucp
