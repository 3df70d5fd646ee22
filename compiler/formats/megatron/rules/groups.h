// The parameters that each group of the optimizer has. The files do not say: Megatron Core deals them out by rule, and
// so does this.
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/formats/megatron/rules/common.h"
#include "compiler/formats/training_state.h"

namespace ucp::megatron {

struct Parameter {
  std::string name;
  std::size_t dimensions = 0;  // Those that count layers or experts too.
};

struct Groups {
  std::vector<OptimizerGroup> groups;
  std::string unread;  // Why it is not known which parameters they have, as a sentence; empty if it is.
};

// `parameters`: all that the optimizer trains, in the order of the model.
Groups DealIntoGroups(const Common& common, llvm::ArrayRef<Parameter> parameters);

// By these Megatron Core tells the groups of a saved optimizer apart.
inline constexpr std::array<std::string_view, 4> kOfGroups = {"wd_mult", "lr_mult", "is_expert_parallel",
                                                              "is_decoupled_lr"};

// Returns one of them, which may have `pre_` before its name; null if the group lacks it.
pytorch::ValuePtr FindOfGroup(const OptimizerGroup& group, std::string_view key);

// Returns whether both have the same of each, or both lack it, as older releases have no `is_decoupled_lr`: Megatron
// Core finds a group's settings by them.
bool HaveOneKey(const OptimizerGroup& a, const OptimizerGroup& b);

}  // namespace ucp::megatron
