#include "runtime/saved_state/description.h"

#include <utility>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/planner/join.h"
#include "runtime/manifest/part_of_checkpoint.h"

namespace ucp {
namespace {

void AddEntries(const std::vector<pytorch::Entry>& from, bool is_of_module, std::vector<SavedEntry>& entries) {
  for (const pytorch::Entry& entry : from) {
    if (const auto name = pytorch::AsText(*entry.key)) {
      entries.push_back({std::string(*name), is_of_module, entry.value});
    }
  }
}

std::vector<SavedEntry> EntriesOf(const TrainingState& training) {
  std::vector<SavedEntry> entries;
  AddEntries(training.ranks[training.counting_rank].client, false, entries);
  if (pytorch::ValuePtr scheduler = FindEntry(training.engine, "lr_scheduler")) {
    entries.push_back({"lr_scheduler", false, std::move(scheduler)});
  }
  if (training.ranks.size() == 1) AddEntries(training.ranks.front().module_extras, true, entries);
  return entries;
}

}  // namespace

llvm::Expected<Description> Describe(ReadableFileSystem& files, const SourceRequest& request) {
  UCP_RETURN_IF_ERROR(CheckIsWhole(files, request.path));
  UCP_ASSIGN_OR_RETURN(BoundSource bound, DescribeAndBind(files, request));
  Description description;
  UCP_ASSIGN_OR_RETURN(description.tensors, JoinTensors(bound.layout, bound.checkpoint.inventory));
  for (const LogicalTensor& tensor : description.tensors) {
    description.second_names.push_back(bound.layout.Find(tensor.name)->aliases);
  }
  description.training = std::move(bound.checkpoint.training);
  description.entries = EntriesOf(description.training);
  return description;
}

std::set<std::string> LooseStateNames(const Description& description) {
  std::set<std::string> names;
  for (const LooseState& state : description.training.loose_states) names.insert(state.name);
  return names;
}

std::optional<double> StepOf(const Description& description, const OptimizerGroup& group) {
  return group.step == nullptr ? std::nullopt : StepNumber(description.training, *group.step);
}

}  // namespace ucp
