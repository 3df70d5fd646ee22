// The arguments of the training script that will load a target whose files depend on the number of its ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/formats/megatron/write/target_options.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/inventory.h"

namespace ucp::megatron {

struct TargetArgs {
  std::vector<pytorch::Entry> client;      // The script's entries, whose `args` have the numbers of the target's ranks.
  std::map<std::string, Fact> facts;       // As Arguments takes them.
  bool has_seeds = true;                   // The states of random generators are of as many ranks.
  bool has_other_tensor_parallel = false;  // Than the source.
};

// Those of the source; for own buffers with the numbers that `options` say.
TargetArgs ArgsOf(const TargetOptions& options, const TrainingState& training);

}  // namespace ucp::megatron
