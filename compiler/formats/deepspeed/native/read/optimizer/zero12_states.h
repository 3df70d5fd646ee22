// One ZeRO file (`[bf16_]zero_pp_rank_D_mp_rank_XX_optim_states.pt`) of stage 1, stage 2 or BF16_Optimizer as plain
// data.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/formats/agreement.h"
#include "compiler/formats/deepspeed/common/folding.h"
#include "compiler/formats/deepspeed/native/read/optimizer/torch_optimizer.h"

namespace ucp::deepspeed {

// Where a parameter lies in this partition, as the file says. Known to be wrong with round_robin_gradients.
struct SliceAddress {
  std::int64_t start = 0;
  std::int64_t elements = 0;
  bool operator==(const SliceAddress&) const = default;
};

// One partition's part of one optimizer group. Its master may be short of the padding at its end.
struct GroupPartition : SteppedTensor {
  bool is_lean = false;                // Elastic: states are also short of the padding.
  pytorch::ValuePtr hyper_parameters;  // A dict. Never null.
  bool is_of_experts = false;
  std::optional<std::int64_t> partition_count;                 // Over how many ranks this group is cut.
  std::vector<std::int64_t> alignment_paddings;                // Zeros behind each parameter; empty: none anywhere.
  std::map<std::string, SliceAddress, std::less<>> addresses;  // Empty if the file does not say.
};

// The caller fills in its rank.
struct OptimizerStates : Speaker {
  bool is_bf16_optimizer = false;  // The one class that does not say its stage.
  std::string kind;                // "stage 1", "stage 2, elastic", "BF16_Optimizer".
  std::vector<GroupPartition> groups;
  std::optional<Folding> folding;
  std::vector<pytorch::Entry> others;    // loss_scaler, overflow, clip_grad, …: carried on.
  std::vector<std::string> unread_keys;  // Of the file (unread_keys.h).
};

// Stage 3 is kUnsupported, and named. An elastic checkpoint says nothing of hyper-parameters, nor of experts.
llvm::Expected<OptimizerStates> ReadOptimizerStates(SourceArchives& archives, const std::string& path);

}  // namespace ucp::deepspeed
