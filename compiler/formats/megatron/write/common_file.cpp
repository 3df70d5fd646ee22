// The entries of the training script stay as they are. Those that say how the rest is stored are made for the target.
#include "compiler/formats/megatron/write/common_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <span>
#include <utility>

#include "compiler/formats/megatron/rules/groups.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp::megatron {
namespace {

using pytorch::Entry;
using pytorch::MakeText;
using pytorch::ValuePtr;

constexpr std::string_view kIterationTag = "iter_";
constexpr std::int64_t kMostIterations = std::int64_t{1} << 62;

void Set(std::vector<Entry>& entries, std::string_view key, ValuePtr value) {
  const auto found = std::ranges::find_if(entries, [&](const Entry& e) { return pytorch::AsText(*e.key) == key; });
  if (found != entries.end()) {
    found->value = std::move(value);
  } else {
    entries.push_back({MakeText(std::string(key)), std::move(value)});
  }
}

void Remove(std::vector<Entry>& entries, std::string_view key) {
  std::erase_if(entries, [&](const Entry& entry) { return pytorch::AsText(*entry.key) == key; });
}

ValuePtr ComposeContent(const TrainingState& training, std::string_view sharding) {
  const pytorch::Value* source = ContentOf(training);
  std::vector<Entry> content;
  if (source != nullptr) {
    content = *pytorch::Entries(*source);
  } else {
    Set(content, "singleton_local_shards", pytorch::MakeBool(false));
  }
  // Several optimizers then have keys as one has.
  Set(content, "chained_optim_avoid_prefix", pytorch::MakeBool(true));
  Remove(content, "distrib_optim_sharding_type");
  Remove(content, "distrib_optim_fully_reshardable_mem_efficient");
  if (!sharding.empty()) Set(content, "distrib_optim_sharding_type", MakeText(std::string(sharding)));
  if (sharding == kFullyReshardable) {
    Set(content, "distrib_optim_fully_reshardable_mem_efficient", pytorch::MakeBool(false));
  }
  return pytorch::MakeDict(std::move(content));
}

ValuePtr StepOf(const TrainingState& training, const OptimizerGroup& group) {
  if (group.step == nullptr || pytorch::AsInteger(*group.step)) return group.step;
  const auto number = StepNumber(training, *group.step);
  return number ? pytorch::MakeDouble(*number) : nullptr;
}

std::string BytesOf(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(bits >> (8 * i) & 0xff));
  return bytes;
}

ValuePtr ComposeGroups(const TrainingState& training, std::span<const OptimizerGroup> of_optimizer,
                       ArchiveComposer& composer) {
  std::vector<ValuePtr> groups;
  for (const OptimizerGroup& group : of_optimizer) {
    std::vector<Entry> entries = *pytorch::Entries(*group.hyper_parameters);
    Remove(entries, "params");
    Set(entries, "step", StepOf(training, group));
    groups.push_back(pytorch::MakeDict(composer.AddEntries(entries)));
  }
  return pytorch::MakeList(std::move(groups));
}

ValuePtr ScalerOf(const TrainingState& training, ArchiveComposer& composer) {
  const ValuePtr scaler = FindEntry(training.optimizer, "grad_scaler");
  return scaler ? composer.AddValue(scaler) : nullptr;
}

// PyTorch's own Adam keeps the step of each parameter, of which an optimizer that is not distributed saves one; others
// keep it in the groups. Each ignores the other's.
ValuePtr ComposeOptimizer(const TrainingState& training, std::span<const OptimizerGroup> of_optimizer,
                          std::string_view sharding, ArchiveComposer& composer) {
  const Entry kind{MakeText("param_state_sharding_type"), MakeText(std::string(sharding))};
  if (sharding == kOwnBuffers) return pytorch::MakeDict({kind});  // Each rank has objects of its own.
  std::vector<Entry> inner;
  if (sharding.empty()) {
    const auto step = static_cast<float>(StepNumber(training, *training.groups.front().step).value_or(0));
    ValuePtr common = composer.AddData(DType::kFloat32, {}, BytesOf(step));
    inner.push_back({MakeText("state"), pytorch::MakeDict({{MakeText("common_step"), std::move(common)}})});
  }
  inner.push_back({MakeText("param_groups"), ComposeGroups(training, of_optimizer, composer)});
  std::vector<Entry> optimizer = {{MakeText("optimizer"), pytorch::MakeDict(std::move(inner))}};
  if (ValuePtr scaler = ScalerOf(training, composer)) optimizer.push_back({MakeText("grad_scaler"), std::move(scaler)});
  if (!sharding.empty()) optimizer.push_back(kind);
  return pytorch::MakeDict(std::move(optimizer));
}

// One is a dict; of several there is a dict by their numbers.
ValuePtr ComposeOptimizers(const TrainingState& training, const Optimizers& optimizers, std::string_view sharding,
                           ArchiveComposer& composer) {
  std::vector<Entry> entries;
  for (const std::vector<OptimizerGroup>& groups : optimizers) {
    ValuePtr optimizer = ComposeOptimizer(training, groups, sharding, composer);
    if (optimizers.size() == 1) return optimizer;
    entries.push_back({pytorch::MakeInteger(std::ssize(entries)), std::move(optimizer)});
  }
  return pytorch::MakeDict(std::move(entries));
}

std::vector<std::string> LackingInGroups(const TrainingState& training) {
  std::vector<std::string> lacking;
  for (std::size_t g = 0; g < training.groups.size(); ++g) {
    std::vector<std::string> keys;
    for (const std::string_view key : kOfGroups) {
      if (!FindOfGroup(training.groups[g], key)) keys.push_back(fmt::format("`{}`", key));
    }
    if (!StepOf(training, training.groups[g])) keys.emplace_back("the step");
    if (!keys.empty()) lacking.push_back(fmt::format("{} of group {} of the optimizer", fmt::join(keys, ", "), g));
  }
  return lacking;
}

}  // namespace

bool IsObjectKey(std::string_view key) { return key.find("/shard_") != key.npos; }

std::optional<std::int64_t> IterationOf(const TrainingState& training) {
  const std::string_view tag = training.tag;
  if (tag.starts_with(kIterationTag)) {
    const auto number = ParseCount(tag.substr(kIterationTag.size()), 0, kMostIterations);
    if (number && FolderOf(number) == tag) return number;
  }
  if (tag == kRelease) return std::nullopt;
  const ValuePtr said = FindEntry(training.ranks[training.counting_rank].client, "iteration");
  const auto number = said ? pytorch::AsInteger(*said) : std::nullopt;
  return number && *number >= 0 && *number <= kMostIterations ? number : std::nullopt;
}

std::string FolderOf(std::optional<std::int64_t> iteration) {
  return iteration ? fmt::format("{}{:07}", kIterationTag, *iteration) : kRelease;
}

std::string TrackerText(const TrainingState& training) {
  const auto iteration = IterationOf(training);
  return iteration ? fmt::to_string(*iteration) : std::string(kRelease);
}

llvm::Error CheckOptimizerIsWhole(const TrainingState& training) {
  std::vector<std::string> lacking;
  if (ArgsIn(training) == nullptr) {
    lacking.emplace_back("`args`, the arguments of Megatron's training script");
  }
  if (!IterationOf(training)) {
    lacking.push_back(fmt::format("`iteration` ({} says it)", OptionName(UserOption::kTag, "iter_0001000")));
  }
  std::ranges::move(LackingInGroups(training), std::back_inserter(lacking));
  if (!lacking.empty()) {
    return Fail(ErrorCode::kUnsupported,
                "Megatron Core resumes from what the source does not have: {}; `states=weights` writes the weights "
                "alone",
                fmt::join(lacking, "; "));
  }
  const double step = *StepNumber(training, *training.groups.front().step);
  for (const OptimizerGroup& group : training.groups) {
    if (const double other = *StepNumber(training, *group.step); other != step) {
      return Fail(ErrorCode::kUnsupported,
                  "the groups of the optimizer are at the steps {} and {}, and Megatron Core loads one step for all",
                  step, other);
    }
  }
  return llvm::Error::success();
}

ValuePtr ComposeCommon(const TrainingState& training, const std::vector<Entry>& client, const TargetOptions& options,
                       const Optimizers& optimizers, ArchiveComposer& composer) {
  std::vector<Entry> entries;
  for (const Entry& entry : client) {
    const auto key = pytorch::AsText(*entry.key);
    if (!options.weights_alone && !(key && IsObjectKey(*key))) entries.push_back(entry);
  }
  if (FindEntry(entries, "checkpoint_version") == nullptr) Set(entries, "checkpoint_version", pytorch::MakeDouble(3));
  Set(entries, "iteration", pytorch::MakeInteger(IterationOf(training).value_or(0)));
  Set(entries, "content_metadata", ComposeContent(training, optimizers.empty() ? "" : options.sharding));
  entries = composer.AddEntries(entries);
  if (!optimizers.empty()) {
    Set(entries, "optimizer", ComposeOptimizers(training, optimizers, options.sharding, composer));
  }
  return pytorch::MakeDict(std::move(entries));
}

ValuePtr ComposeOwnGroups(const TrainingState& training, std::span<const OptimizerGroup> of_optimizer,
                          ArchiveComposer& composer) {
  return pytorch::MakeDict({{MakeText("param_groups"), ComposeGroups(training, of_optimizer, composer)}});
}

}  // namespace ucp::megatron
