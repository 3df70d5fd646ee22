#include "compiler/formats/megatron/write/target_options.h"

#include <map>
#include <string>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/layout/mesh.h"

namespace ucp::megatron {
namespace {

constexpr std::int64_t kMostFiles = 65536;

// Whether the source's optimizer was, by what Megatron Core or the training script says; if nothing says it, yes.
bool IsDistributed(const TrainingState& training) {
  if (const pytorch::Value* content = ContentOf(training)) {
    return pytorch::Find(*content, "distrib_optim_sharding_type") != nullptr;
  }
  const pytorch::ValuePtr args = FindEntry(training.ranks[training.counting_rank].client, "args");
  const pytorch::ValuePtr said = args ? pytorch::Find(*args, "use_distributed_optimizer") : nullptr;
  return !said || pytorch::AsBool(*said).value_or(true);
}

}  // namespace

StrategyRules TargetRules() {
  return {
      .settings = {TakesWord("optimizer", {"fully_reshardable", "not_distributed"}), TakesNumber("ep", 1, kMostRanks),
                   TakesNumber("files", 1, kMostFiles), TakesWord("dtype", {"bf16", "fp16", "fp32"}),
                   TakesWord("states", {"weights", "all"}), TakesLayout()},
      .help =
          "megatron for Megatron Core (torch_dist), with optimizer=fully_reshardable|not_distributed (default: the "
          "source's, or fully_reshardable), ep=N (ranks that share out experts; default: the source's), files=N, "
          "dtype=bf16|fp16|fp32 (of the weights), states=weights, "
          "layout=NAME (another layout of the spec's model)"};
}

TargetOptions ReadTargetOptions(const Strategy& strategy, const TrainingState& training) {
  static const std::map<std::string, DType> kTypes = {
      {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}, {"fp32", DType::kFloat32}};
  TargetOptions options;
  options.is_distributed = IsDistributed(training);
  for (const auto& [key, value] : strategy.options) {
    if (key == "optimizer") options.is_distributed = value == "fully_reshardable";
    if (key == "ep") options.expert_parallel = ParseCount(value, 1, kMostRanks);
    if (key == "files") options.files = ParseCount(value, 1, kMostFiles);
    if (key == "dtype") options.dtype = kTypes.at(value);
    if (key == "states") options.weights_alone = value == "weights";
  }
  return options;
}

const pytorch::Value* ContentOf(const TrainingState& training) {
  const pytorch::ValuePtr content = FindEntry(training.ranks[training.counting_rank].client, "content_metadata");
  return content && pytorch::Entries(*content) != nullptr ? content.get() : nullptr;
}

}  // namespace ucp::megatron
