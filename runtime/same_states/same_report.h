// The findings of `ucprun verify --same`, as text and as JSON.
#pragma once

#include <llvm/Support/JSON.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/same_states/same_states.h"

namespace ucp {

// `b` is the second checkpoint, which has so many states.
std::vector<std::string> SameLines(const SameStates& same, const std::string& b, std::uint64_t states);

llvm::json::Object SameJson(const SameStates& same);

}  // namespace ucp
