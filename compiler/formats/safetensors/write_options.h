// The settings of a strategy of this format: "safetensors:dtype=bf16,max_shard=2GB,states=all,names=memory".
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/formats/strategy.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/layout/dtype.h"

namespace ucp::safetensors {

struct WriteOptions {
  std::optional<DType> dtype;                     // Of the parameters; nothing: what the model computes with.
  std::uint64_t max_shard_bytes = 5'000'000'000;  // Of tensors; a larger tensor stands alone.
  bool all_states = false;                        // Masters, optimizer states and what else a job resumes with.
  bool names_in_memory =
      false;  // Names that a hub folder has otherwise are written as they are; so are those of a layout.
};

StrategyRules WriteRules();
WriteOptions ReadWriteOptions(const Strategy& strategy);  // The strategy keeps to the rules.

}  // namespace ucp::safetensors
