// The files' statement of whose they are (compiler/formats/deepspeed/common/folding.h), where tensor-parallel ranks cut
// the model and share out the experts that AutoEP spreads. Each function adds the entry `folding` to a file's entries,
// and nothing to those of other targets (ExpertsToWrite::is_folded).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/formats/deepspeed/native/write/experts.h"
#include "compiler/formats/deepspeed/native/write/groups.h"
#include "compiler/formats/deepspeed/native/write/job/options.h"

namespace ucp::deepspeed {

// Adds the entries to a file of model states; `names` are those of its module.
void AddFoldingOfModel(const WriteOptions& options, const ExpertsToWrite& experts, RankInFiles place,
                       const std::vector<std::string>& names, std::vector<pytorch::Entry>& entries);

// Adds the entries to a partition's file of the optimizer, which has these groups.
void AddFoldingOfOptimizer(const WriteOptions& options, const ExpertsToWrite& experts, RankInFiles place,
                           const std::vector<FlatGroupToWrite>& groups, std::vector<pytorch::Entry>& entries);

// Adds the entries to a file of an expert's weights, or of an expert rank's optimizer.
void AddFoldingOfExperts(const WriteOptions& options, const ExpertsToWrite& experts, std::int64_t tensor_rank,
                         std::int64_t expert_rank, std::vector<pytorch::Entry>& entries);

}  // namespace ucp::deepspeed
