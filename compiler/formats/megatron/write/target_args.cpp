#include "compiler/formats/megatron/write/target_args.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "compiler/formats/facts.h"
#include "compiler/formats/megatron/rules/arguments.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checked_math.h"

namespace ucp::megatron {
namespace {

using pytorch::Entry;
using pytorch::ValuePtr;

constexpr const char* kTensor = "tensor_model_parallel_size";
constexpr const char* kTensorOfExperts = "expert_tensor_parallel_size";
constexpr const char* kStages = "pipeline_model_parallel_size";
constexpr const char* kReplicas = "data_parallel_size";
constexpr const char* kExpertRanks = "expert_model_parallel_size";

std::vector<Entry> With(std::vector<Entry> entries, const std::map<std::string, std::int64_t>& numbers) {
  for (const auto& [name, number] : numbers) {
    std::erase_if(entries, [&](const Entry& entry) { return pytorch::AsText(*entry.key) == name; });
    entries.push_back({pytorch::MakeText(name), pytorch::MakeInteger(number)});
  }
  return entries;
}

// A namespace is a call with a state.
ValuePtr With(const ValuePtr& args, const std::map<std::string, std::int64_t>& numbers) {
  if (const auto* entries = pytorch::Attributes(*args)) {
    pytorch::Call call = *args->As<pytorch::Call>();
    call.state = pytorch::MakeDict(With(*entries, numbers));
    return pytorch::MakeCall(std::move(call));
  }
  const auto* entries = pytorch::Entries(*args);
  return entries == nullptr ? args : pytorch::MakeDict(With(*entries, numbers));
}

std::map<std::string, std::int64_t> ChangedNumbers(const TargetOptions& options, const Arguments& source) {
  std::map<std::string, std::int64_t> numbers;
  const auto change = [&](const char* name, const std::optional<std::int64_t>& asked) {
    if (asked && source.Number(name) != asked) numbers[name] = *asked;
  };
  change(kTensor, options.tensor_parallel);
  change(kStages, options.stages);
  change(kReplicas, options.replicas);
  change(kExpertRanks, options.expert_parallel);
  const bool is_alike = source.Number(kTensorOfExperts) == source.Number(kTensor);
  if (numbers.contains(kTensor) && is_alike) numbers[kTensorOfExperts] = numbers[kTensor];
  if (numbers.empty()) return numbers;
  std::optional<std::int64_t> world = 1;
  for (const char* name : {kTensor, kStages, kReplicas, "context_parallel_size"}) {
    const std::int64_t ranks = numbers.contains(name) ? numbers[name] : source.Number(name).value_or(1);
    world = world ? CheckedMultiply(*world, ranks) : world;
  }
  if (world) numbers["world_size"] = *world;
  return numbers;
}

// "rng_state/shard_0.1.3_2.2.4": with expert parallelism, data-parallel ranks have states of their own.
bool HasSeedsOfReplicas(const std::vector<Entry>& client) {
  return std::ranges::any_of(client, [](const Entry& entry) {
    const std::string_view key = pytorch::AsText(*entry.key).value_or("");
    return key.starts_with("rng_state/shard_") && std::ranges::count(key.substr(0, key.rfind('_')), '.') > 1;
  });
}

}  // namespace

TargetArgs ArgsOf(const TargetOptions& options, const TrainingState& training) {
  TargetArgs target;
  target.client = training.ranks[training.counting_rank].client;
  AddFacts(target.client, {}, "args", target.facts);
  if (!options.has_own_buffers()) return target;
  const auto numbers = ChangedNumbers(options, Arguments(target.facts));
  if (numbers.empty()) return target;
  target.has_seeds = !numbers.contains(kTensor) && !numbers.contains(kStages) && !numbers.contains(kExpertRanks) &&
                     !(numbers.contains(kReplicas) && HasSeedsOfReplicas(target.client));
  target.has_other_tensor_parallel = numbers.contains(kTensor);
  for (Entry& entry : target.client) {
    if (pytorch::AsText(*entry.key) == "args") entry.value = With(entry.value, numbers);
  }
  target.facts.clear();
  AddFacts(target.client, {}, "args", target.facts);
  return target;
}

}  // namespace ucp::megatron
