// The settings of `--to megatron`.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/formats/strategy.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/dtype.h"

namespace ucp::megatron {

struct TargetOptions {
  bool is_distributed = true;                   // The optimizer that will load it; without one, of no meaning.
  std::optional<DType> dtype;                   // Of the weights.
  std::optional<std::int64_t> files;            // How many, of about equal size.
  std::optional<std::int64_t> expert_parallel;  // Ranks that share out experts; without it, as in the source.
  bool weights_alone = false;
};

StrategyRules TargetRules();

// `strategy` follows these rules. Where it does not name the optimizer, the one counts that Megatron Core saved.
TargetOptions ReadTargetOptions(const Strategy& strategy, const TrainingState& training);

// Returns the dict in which Megatron Core says how the rest is stored; null if another program saved the source.
const pytorch::Value* ContentOf(const TrainingState& training);

}  // namespace ucp::megatron
