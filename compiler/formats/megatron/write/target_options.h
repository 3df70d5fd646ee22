// The settings of `--to megatron`.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "compiler/formats/strategy.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/formats/training_state.h"
#include "compiler/layout/dtype.h"

namespace ucp::megatron {

// As Megatron Core calls them.
inline constexpr std::string_view kFullyReshardable = "fully_reshardable";
inline constexpr std::string_view kOwnBuffers = "dp_reshardable";

struct TargetOptions {
  bool is_distributed() const { return !sharding.empty(); }
  bool has_own_buffers() const { return sharding == kOwnBuffers; }

  // How the optimizer that will load it shards its states: kFullyReshardable, kOwnBuffers; empty: it is not
  // distributed.
  std::string_view sharding = kFullyReshardable;
  std::optional<DType> dtype;                   // Of the weights.
  std::optional<std::int64_t> files;            // How many, of about equal size.
  std::optional<std::int64_t> expert_parallel;  // Ranks that share out experts; without it, as in the source.
  // Ranks of the job, as `args` says them: of kOwnBuffers alone. Without them, as in the source.
  std::optional<std::int64_t> tensor_parallel;
  std::optional<std::int64_t> stages;
  std::optional<std::int64_t> replicas;
  bool weights_alone = false;
  bool is_fsdp = false;  // The folder is of `fsdp_dtensor`, and otherwise of `torch_dist`.
};

StrategyRules TargetRules();

// `strategy` follows these rules. Where it does not name the optimizer, the one counts that Megatron Core saved.
TargetOptions ReadTargetOptions(const Strategy& strategy, const TrainingState& training);

// Fails (kUsage) for settings that contradict each other.
[[nodiscard]] llvm::Error CheckTargetOptions(const Strategy& strategy, const TargetOptions& options);

// Returns the arguments of the training script; null if there are none.
pytorch::ValuePtr ArgsIn(const TrainingState& training);

// Returns the dict in which Megatron Core says how the rest is stored; null if another program saved the source.
const pytorch::Value* ContentOf(const TrainingState& training);

}  // namespace ucp::megatron
