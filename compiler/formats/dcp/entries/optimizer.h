// The optimizer's groups from the hyper-parameters that a checkpoint has, which stand in one of three forms: for each
// group, for each parameter, or as one list. Parameters with the same hyper-parameters and the same step are a group.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/formats/dcp/entries/roles.h"
#include "compiler/formats/pytorch/values/value.h"
#include "compiler/formats/training_state.h"

namespace ucp::dcp {

using ValueOfEntry = std::unordered_map<const Entry*, pytorch::ValuePtr>;

struct Optimizer {
  std::vector<OptimizerGroup> groups;
  std::vector<std::string> stateless;  // Parameters in groups that have no states, while others have some.
  std::string unread;                  // Why the groups are not understood, as a sentence; empty if they are.
};

// `values`: of all of the entries in `roles.groups`, and of the steps. `trained`: the parameters that have states.
Optimizer ReadOptimizer(const Roles& roles, const ValueOfEntry& values, const std::set<std::string>& trained);

}  // namespace ucp::dcp
