#include "compiler/formats/deepspeed/native/read/optimizer/optimizer_groups.h"

#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

struct MergedGroup {
  OptimizerGroup group;
  std::string hyper_parameters;  // Printed.
  Speaker speaker;               // The rank whose step and hyper-parameters count.
  std::unordered_set<std::string> names;
};

// Where group `index` of a rank belongs, not before `from`: at its own number if it fits there, else at the first that
// fits.
std::optional<std::size_t> FindPlace(const std::vector<MergedGroup>& merged, const std::string& hyper_parameters,
                                     std::size_t index, std::size_t from) {
  auto fits = [&](std::size_t i) { return merged[i].hyper_parameters == hyper_parameters; };
  if (index >= from && index < merged.size() && fits(index)) return index;
  for (std::size_t i = from; i < merged.size(); ++i) {
    if (fits(i)) return i;
  }
  return std::nullopt;
}

llvm::Error Join(Inventory& inventory, const TrainingState& training, MergedGroup& into, const OptimizerGroup& group,
                 const Speaker& speaker) {
  const bool is_believed =
      inventory.preference.Prefers(speaker.rank) && !inventory.preference.Prefers(into.speaker.rank);
  const MergedGroup before = {OptimizerGroup{nullptr, into.group.step, {}}, {}, into.speaker, {}};
  if (is_believed) {
    into.group.step = group.step;
    into.speaker = speaker;
    UCP_RETURN_IF_ERROR(CheckStepAlike(inventory, training, speaker, group.step, before.speaker, before.group.step));
  } else {
    UCP_RETURN_IF_ERROR(CheckStepAlike(inventory, training, into.speaker, into.group.step, speaker, group.step));
  }
  for (const std::string& name : group.parameters) {
    if (into.names.insert(name).second) into.group.parameters.push_back(name);
  }
  return llvm::Error::success();
}

llvm::Error CheckOneGroupEach(const std::string& folder, const std::vector<MergedGroup>& merged) {
  std::unordered_map<std::string, const MergedGroup*> group_of;
  for (const MergedGroup& group : merged) {
    for (const std::string& name : group.group.parameters) {
      auto [entry, added] = group_of.emplace(name, &group);
      if (added) continue;
      return Fail(ErrorCode::kBadData, "`{}`: `{}` has the hyper-parameters {} in `{}` and {} in `{}`", folder, name,
                  entry->second->hyper_parameters, entry->second->speaker.path, group.hyper_parameters,
                  group.speaker.path);
    }
  }
  return llvm::Error::success();
}

// Tensor-parallel ranks of a stage have the same groups; one of them counts.
llvm::Error AgreeInStage(Inventory& inventory, const TrainingState& training, const std::vector<RankGroups*>& ranks) {
  std::vector<Coordinate> places;
  for (const RankGroups* rank : ranks) places.push_back(rank->speaker.rank);
  const RankGroups& believed = *ranks[inventory.preference.FirstOf(places)];
  for (RankGroups* rank : ranks) {
    if (rank == &believed || rank->groups.size() != believed.groups.size()) continue;
    for (std::size_t g = 0; g < rank->groups.size(); ++g) {
      const OptimizerGroup& a = believed.groups[g];
      OptimizerGroup& b = rank->groups[g];
      UCP_RETURN_IF_ERROR(CheckAlike(inventory, fmt::format("`param_groups` of group {}", g), believed.speaker,
                                     a.hyper_parameters, rank->speaker, b.hyper_parameters,
                                     pytorch::ListLengths::kMustAgree));
      UCP_RETURN_IF_ERROR(CheckStepAlike(inventory, training, believed.speaker, a.step, rank->speaker, b.step));
      b.hyper_parameters = a.hyper_parameters;
      b.step = a.step;
    }
  }
  return llvm::Error::success();
}

llvm::Error AgreeInStages(Inventory& inventory, const TrainingState& training, std::vector<RankGroups>& ranks) {
  std::map<std::int64_t, std::vector<RankGroups*>> stages;
  for (RankGroups& rank : ranks) stages[rank.speaker.rank.At("pp")].push_back(&rank);
  for (const auto& [stage, of_stage] : stages) UCP_RETURN_IF_ERROR(AgreeInStage(inventory, training, of_stage));
  return llvm::Error::success();
}

llvm::Expected<std::vector<OptimizerGroup>> MergeGroups(Inventory& inventory, const TrainingState& training,
                                                        const std::vector<RankGroups>& ranks) {
  std::vector<MergedGroup> merged;
  for (const RankGroups& rank : ranks) {
    std::size_t next = 0;
    for (std::size_t g = 0; g < rank.groups.size(); ++g) {
      const OptimizerGroup& group = rank.groups[g];
      std::string hyper_parameters = pytorch::Print(*group.hyper_parameters);
      std::optional<std::size_t> place = FindPlace(merged, hyper_parameters, g, next);
      if (!place) {
        place = next;
        MergedGroup added{
            OptimizerGroup{group.hyper_parameters, group.step, {}}, std::move(hyper_parameters), rank.speaker, {}};
        merged.insert(merged.begin() + static_cast<std::ptrdiff_t>(next), std::move(added));
      }
      UCP_RETURN_IF_ERROR(Join(inventory, training, merged[*place], group, rank.speaker));
      next = *place + 1;
    }
  }
  UCP_RETURN_IF_ERROR(CheckOneGroupEach(inventory.root, merged));
  std::vector<OptimizerGroup> groups;
  for (MergedGroup& group : merged) groups.push_back(std::move(group.group));
  return groups;
}

}  // namespace

llvm::Error MergeOptimizers(Inventory& inventory, TrainingState& training, std::vector<RankGroups> ranks) {
  UCP_RETURN_IF_ERROR(AgreeInStages(inventory, training, ranks));
  UCP_ASSIGN_OR_RETURN(training.groups, MergeGroups(inventory, training, ranks));
  std::vector<Coordinate> places;
  for (const RankGroups& rank : ranks) places.push_back(rank.speaker.rank);
  RankGroups& believed = ranks[inventory.preference.FirstOf(places)];
  for (const RankGroups& rank : ranks) {
    UCP_RETURN_IF_ERROR(CheckAlike(inventory, "the optimizer", believed.speaker, pytorch::MakeDict(believed.others),
                                   rank.speaker, pytorch::MakeDict(rank.others), pytorch::ListLengths::kMayDiffer));
  }
  training.optimizer = std::move(believed.others);
  training.optimizer_origin = {believed.speaker.path, believed.path};
  training.groups_origin = {believed.speaker.path, fmt::format("{}.{}", believed.path, believed.groups_path)};
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
