#include "runtime/formats/deepspeed/optimizer_groups.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "compiler/support/error.h"
#include "runtime/formats/pytorch/value_access.h"

namespace ucp::deepspeed {
namespace {

struct MergedGroup {
  OptimizerGroup group;
  std::string hyper_parameters;  // Printed.
  std::string path;              // Of the rank that brought it.
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

llvm::Error Join(const TrainingState& training, MergedGroup& into, const OptimizerGroup& group,
                 const std::string& path) {
  UCP_RETURN_IF_ERROR(CheckSameStep(training, into.group.step, into.path, group.step, path));
  for (const std::string& name : group.parameters) {
    if (into.names.insert(name).second) into.group.parameters.push_back(name);
  }
  return llvm::Error::success();
}

llvm::Error CheckOneGroupEach(const std::vector<MergedGroup>& merged) {
  std::unordered_map<std::string, const MergedGroup*> group_of;
  for (const MergedGroup& group : merged) {
    for (const std::string& name : group.group.parameters) {
      auto [entry, added] = group_of.emplace(name, &group);
      if (added) continue;
      return Fail(ErrorCode::kBadData, "`{}` has the hyper-parameters {} in `{}` and {} in `{}`", name,
                  entry->second->hyper_parameters, entry->second->path, group.hyper_parameters, group.path);
    }
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<std::vector<OptimizerGroup>> MergeGroups(const TrainingState& training,
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
        MergedGroup added{{group.hyper_parameters, group.step, {}}, std::move(hyper_parameters), rank.path, {}};
        merged.insert(merged.begin() + static_cast<std::ptrdiff_t>(next), std::move(added));
      }
      UCP_RETURN_IF_ERROR(Join(training, merged[*place], group, rank.path));
      next = *place + 1;
    }
  }
  UCP_RETURN_IF_ERROR(CheckOneGroupEach(merged));
  std::vector<OptimizerGroup> groups;
  for (MergedGroup& group : merged) groups.push_back(std::move(group.group));
  return groups;
}

}  // namespace ucp::deepspeed
