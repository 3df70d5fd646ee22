// The optimizer's groups of experts, as DeepSpeed's `split_params_into_different_moe_groups_for_optimizer` makes them:
// named for how many ranks share the experts out (`ep_size_2`), and no larger on one rank than a limit, so that a group
// can be several with another number of ranks, or several one.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/formats/training_state.h"
#include "compiler/layout/target.h"

namespace ucp {

// Returns the names that the optimizer was given for one group, from the ranks that share its experts out: rank after
// rank they are the same parameters of other experts. The result is the list that one rank that has all of them gives
// it, if their order is that of layers, then experts, then parameters; else the ranks follow one another.
std::vector<std::string> JoinExpertRanks(const std::vector<std::vector<std::string>>& ranks);

// Returns how many experts each layer has, by the prefix of the layer's names.
std::map<std::string, std::int64_t> ExpertCounts(std::span<const LogicalTensor> tensors);

// Over how many tensor-parallel ranks experts are cut.
struct TensorRanks {
  std::int64_t source = 1;
  std::int64_t target = 1;
};

// On which stage of a pipeline each tensor of experts is; on the first one if it is not there.
struct ExpertStages {
  std::map<std::string, std::int64_t> source, target;
};

// Returns the groups with their experts spread over `ep` ranks, which is a divisor of all counts; others stay. Each
// stage splits its own. Fails (kUnsupported) if their order is not known for another degree than the source's, or if
// they could be split otherwise where tensor-parallel ranks have less of them, or, of experts that are not fused, other
// stages.
llvm::Expected<std::vector<OptimizerGroup>> GroupsForExpertRanks(const TrainingState& training,
                                                                 std::span<const LogicalTensor> tensors,
                                                                 std::int64_t ep, TensorRanks tensor_ranks = {},
                                                                 const ExpertStages& stages = {});

}  // namespace ucp
