// One ZeRO file of stage 3 as plain data.
//
// Stage 3 cuts each parameter on its own into as many equal parts as there are partitions, the last ones padded or all
// padding. A partition keeps its parts of several parameters behind each other in a vector, a sub-group; an optimizer
// group has one sub-group or more.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/formats/agreement.h"
#include "compiler/formats/deepspeed/common/folding.h"
#include "compiler/formats/deepspeed/native/read/optimizer/torch_optimizer.h"

namespace ucp::deepspeed {

struct SubGroups {
  pytorch::ValuePtr hyper_parameters;  // A dict. Never null.
  std::vector<std::size_t> members;    // Numbers of the group's sub-groups, in flattening order.
};

// The caller fills in its rank.
struct PartitionedStates : Speaker {
  std::vector<SteppedTensor> sub_groups;  // Padding included.
  std::vector<SubGroups> groups;          // Every sub-group is in one of them.
  std::optional<std::int64_t> partition_count;
  // With AutoEP: which partitions share each sub-group, in order; empty: all of them share all.
  std::vector<std::vector<std::int64_t>> partition_ranks;
  std::optional<Folding> folding;
  std::vector<pytorch::Entry> others;    // loss_scaler, overflow, …: carried on.
  std::vector<std::string> unread_keys;  // Of the file (unread_keys.h).
};

// States that are not one number per element are kUnsupported.
llvm::Expected<PartitionedStates> ReadPartitionedStates(SourceArchives& archives, const std::string& path);

}  // namespace ucp::deepspeed
