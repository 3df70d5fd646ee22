#include "compiler/synthetic/synthetic_training.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "compiler/bind/module_order.h"
#include "compiler/formats/format.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/error.h"
#include "compiler/support/spelling.h"
#include "compiler/support/user_option.h"

namespace ucp {
namespace {

using pytorch::Entry;
using pytorch::MakeBool;
using pytorch::MakeDict;
using pytorch::MakeDouble;
using pytorch::MakeInteger;
using pytorch::MakeText;
using pytorch::ValuePtr;

constexpr std::uint64_t kMostListBytes = std::uint64_t{1} << 28;

std::string Setting(const Strategy& strategy, const std::string& key, const std::string& otherwise) {
  auto option = strategy.options.find(key);
  return option == strategy.options.end() ? otherwise : option->second;
}

// Some number: what DeepSpeed does not say in a strategy, stage 1 is for.
std::string StageOf(const Strategy& strategy) { return Setting(strategy, "zero", "1"); }

bool IsTrained(const LogicalTensor& tensor) { return tensor.kind == TensorKind::kParameter; }

ValuePtr HyperParameters() {
  return MakeDict({{MakeText("lr"), MakeDouble(1e-4)},
                   {MakeText("bias_correction"), MakeBool(true)},
                   {MakeText("betas"), pytorch::MakeTuple({MakeDouble(0.9), MakeDouble(0.999)})},
                   {MakeText("eps"), MakeDouble(1e-8)},
                   {MakeText("weight_decay"), MakeDouble(0.0)}});
}

ValuePtr Config(const Strategy& strategy) {
  const DType dtype = DTypeOf(strategy);
  const auto stage = ParseCount(StageOf(strategy), 0, 3);
  std::vector<Entry> config = {
      {MakeText("train_micro_batch_size_per_gpu"), MakeInteger(1)},
      {MakeText("zero_optimization"), MakeDict({{MakeText("stage"), MakeInteger(stage.value_or(1))}})}};
  if (dtype != DType::kFloat32) {
    const char* section = dtype == DType::kFloat16 ? "fp16" : "bf16";
    config.push_back({MakeText(section), MakeDict({{MakeText("enabled"), MakeBool(true)}})});
  }
  return MakeDict(std::move(config));
}

}  // namespace

llvm::Expected<TiedLayers> ParseTiedLayers(const std::vector<std::string>& settings) {
  TiedLayers tied;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    std::optional<std::int64_t> layer;
    if (equals != std::string::npos && equals > 0) {
      layer = ParseCount(std::string_view(setting).substr(equals + 1), 0, kMostRanks);
    }
    if (!layer) {
      return Fail(ErrorCode::kUsage, "{} takes KEY=N, a tied module and the number of its layer, not `{}`",
                  OptionName(UserOption::kTiedLayer), setting);
    }
    tied[setting.substr(0, equals)] = *layer;
  }
  return tied;
}

DType DTypeOf(const Strategy& strategy) {
  const std::string name = Setting(strategy, "dtype", "bf16");
  if (name == "fp32") return DType::kFloat32;
  return name == "fp16" ? DType::kFloat16 : DType::kBFloat16;
}

llvm::Expected<ParameterGroups> ReadParameterGroups(ReadableFileSystem& files, const std::string& path,
                                                    std::span<const LogicalTensor> tensors) {
  UCP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files, path, kMostListBytes));
  std::vector<std::string> trained;
  for (const LogicalTensor& tensor : tensors) {
    if (IsTrained(tensor)) trained.push_back(tensor.name);  // Sorted, as the tensors are.
  }
  ParameterGroups groups;
  std::unordered_set<std::string> seen;
  bool in_group = false;
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string name = text.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    if (name.ends_with('\r')) name.pop_back();
    if (name.empty()) {
      in_group = false;
      continue;
    }
    if (!std::binary_search(trained.begin(), trained.end(), name)) {
      const auto nearest = NearestNames(name, trained, 1);
      return Fail(ErrorCode::kUsage, "`{}`:{}: the spec has no trained tensor `{}`{}", path, line, name,
                  nearest.empty() ? "" : fmt::format("; the nearest is `{}`", nearest.front()));
    }
    if (!seen.insert(name).second) return Fail(ErrorCode::kUsage, "`{}`:{}: `{}` stands twice", path, line, name);
    if (!in_group) groups.emplace_back();
    in_group = true;
    groups.back().push_back(std::move(name));
  }
  for (const std::string& name : trained) {
    if (seen.contains(name)) continue;
    return Fail(ErrorCode::kUsage, "`{}` does not name the parameter `{}` of the spec, and has {} of {}", path, name,
                seen.size(), trained.size());
  }
  return groups;
}

ParameterGroups GroupsInModuleOrder(const BoundSpec& bound, std::span<const LogicalTensor> tensors) {
  std::set<std::string_view> trained;
  for (const LogicalTensor& tensor : tensors) {
    if (IsTrained(tensor)) trained.insert(tensor.name);
  }
  ParameterGroups groups(1);
  for (const std::size_t t : ModuleOrder(bound)) {
    const std::string& name = bound.tensors[t].name;
    if (trained.contains(name)) groups.front().push_back(name);
  }
  return groups;
}

llvm::Expected<TrainingState> MakeSyntheticTraining(const Strategy& strategy, std::span<const LogicalTensor> tensors,
                                                    const ParameterGroups& groups, const TiedLayers& tied) {
  TrainingState training;
  training.tag = "global_step1";
  for (const std::vector<std::string>& parameters : groups) {
    training.groups.push_back({HyperParameters(), MakeInteger(1), parameters});
  }
  training.engine = {{MakeText("lr_scheduler"), pytorch::MakeNone()}, {MakeText("data_sampler"), pytorch::MakeNone()},
                     {MakeText("random_ltd"), pytorch::MakeNone()},   {MakeText("skipped_steps"), MakeInteger(0)},
                     {MakeText("global_steps"), MakeInteger(1)},      {MakeText("global_samples"), MakeInteger(1)},
                     {MakeText("ds_config"), Config(strategy)}};
  // The writer of native files says it of its own ranks; an engine also looks for it in other files.
  if (strategy.format != "deepspeed") training.engine.push_back({MakeText("dp_world_size"), MakeInteger(1)});
  training.ranks.emplace_back();
  UCP_ASSIGN_OR_RETURN(training.format_state, FindFormat(strategy.format)->MakeState(strategy, tensors, tied));
  return training;
}

}  // namespace ucp
