#include "compiler/formats/megatron/write/target_options.h"

#include <map>
#include <string>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/layout/mesh.h"
#include "compiler/support/error.h"

namespace ucp::megatron {
namespace {

constexpr std::int64_t kMostFiles = 65536;

// Whether the source's optimizer was, by what Megatron Core or the training script says; if nothing says it, yes.
bool IsDistributed(const TrainingState& training) {
  if (const pytorch::Value* content = ContentOf(training)) {
    return pytorch::Find(*content, "distrib_optim_sharding_type") != nullptr;
  }
  const pytorch::ValuePtr args = ArgsIn(training);
  const pytorch::ValuePtr said = args ? pytorch::Find(*args, "use_distributed_optimizer") : nullptr;
  return !said || pytorch::AsBool(*said).value_or(true);
}

std::string_view ShardingCalled(std::string_view word) {
  if (word == kOwnBuffers) return kOwnBuffers;
  return word == kFullyReshardable ? kFullyReshardable : "";
}

}  // namespace

StrategyRules TargetRules() {
  return {
      .settings = {TakesWord("format", {"torch_dist", "fsdp_dtensor"}),
                   TakesWord("optimizer", {"fully_reshardable", "dp_reshardable", "not_distributed"}),
                   TakesNumber("ep", 1, kMostRanks), TakesNumber("tp", 1, kMostRanks), TakesNumber("pp", 1, kMostRanks),
                   TakesNumber("dp", 1, kMostRanks), TakesNumber("files", 1, kMostFiles),
                   TakesWord("dtype", {"bf16", "fp16", "fp32"}), TakesWord("states", {"weights", "all"}),
                   TakesLayout()},
      .help =
          "megatron for Megatron Core, with format=torch_dist|fsdp_dtensor (default: torch_dist), "
          "optimizer=KIND (fully_reshardable, dp_reshardable or not_distributed; default: fully_reshardable, or "
          "not_distributed as the source's), ep=N (ranks that share out experts; default: the source's), tp=N, pp=N "
          "and dp=N (ranks of the job, for dp_reshardable; default: those in `args`), files=N, "
          "dtype=bf16|fp16|fp32 (of the weights), states=weights, "
          "layout=NAME (another layout of the spec's model)"};
}

TargetOptions ReadTargetOptions(const Strategy& strategy, const TrainingState& training) {
  static const std::map<std::string, DType> kTypes = {
      {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}, {"fp32", DType::kFloat32}};
  TargetOptions options;
  if (!IsDistributed(training)) options.sharding = "";
  for (const auto& [key, value] : strategy.options) {
    if (key == "format") options.is_fsdp = value == "fsdp_dtensor";
    if (key == "optimizer") options.sharding = ShardingCalled(value);
    if (key == "ep") options.expert_parallel = ParseCount(value, 1, kMostRanks);
    if (key == "tp") options.tensor_parallel = ParseCount(value, 1, kMostRanks);
    if (key == "pp") options.stages = ParseCount(value, 1, kMostRanks);
    if (key == "dp") options.replicas = ParseCount(value, 1, kMostRanks);
    if (key == "files") options.files = ParseCount(value, 1, kMostFiles);
    if (key == "dtype") options.dtype = kTypes.at(value);
    if (key == "states") options.weights_alone = value == "weights";
  }
  return options;
}

llvm::Error CheckTargetOptions(const Strategy& strategy, const TargetOptions& options) {
  if (options.is_fsdp && strategy.options.contains("optimizer")) {
    return Fail(ErrorCode::kUsage, "`optimizer` is a setting of `format=torch_dist`; `fsdp_dtensor` has one kind");
  }
  if (options.is_fsdp && options.dtype && !options.weights_alone) {
    return Fail(ErrorCode::kUsage,
                "the weights of a folder of `fsdp_dtensor` are the masters, so `dtype` goes with `states=weights` "
                "alone");
  }
  for (const char* setting : {"tp", "pp", "dp"}) {
    const bool is_of_ranks = !options.is_fsdp && options.has_own_buffers();
    if (is_of_ranks || !strategy.options.contains(setting)) continue;
    return Fail(ErrorCode::kUsage,
                "`{}` is a setting of `optimizer=dp_reshardable`; other targets load at any number of ranks", setting);
  }
  return llvm::Error::success();
}

pytorch::ValuePtr ArgsIn(const TrainingState& training) {
  return FindEntry(training.ranks[training.counting_rank].client, "args");
}

const pytorch::Value* ContentOf(const TrainingState& training) {
  const pytorch::ValuePtr content = FindEntry(training.ranks[training.counting_rank].client, "content_metadata");
  return content && pytorch::Entries(*content) != nullptr ? content.get() : nullptr;
}

}  // namespace ucp::megatron
