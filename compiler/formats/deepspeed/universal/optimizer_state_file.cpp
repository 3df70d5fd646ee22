#include "compiler/formats/deepspeed/universal/optimizer_state_file.h"

#include <set>
#include <string_view>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::universal {
namespace {

using pytorch::Find;
using pytorch::ValuePtr;

// Entries about a partition alone are not carried on.
llvm::Expected<std::vector<pytorch::Entry>> CarriedEntries(SourceArchives& archives, const SourceArchive& archive) {
  static const std::set<std::string_view> kLeftOut = {"param_groups",
                                                      "optimizer_state_dict",
                                                      "ds_version",
                                                      "fp32_flat_groups",
                                                      "zero_stage",
                                                      "group_paddings",
                                                      "partition_count",
                                                      "param_alignment_paddings",
                                                      "base_optimizer_state_step",
                                                      "universal_checkpoint_info",
                                                      "ds_zero_partition_groups"};
  std::vector<pytorch::Entry> entries;
  for (const pytorch::Entry& entry : *pytorch::Entries(archive.root())) {
    auto key = pytorch::AsText(*entry.key);
    if (!key || !kLeftOut.contains(*key)) entries.push_back(entry);
  }
  UCP_ASSIGN_OR_RETURN(ValuePtr kept, archives.Keep(archive, pytorch::MakeDict(std::move(entries)), "its entries"));
  return *pytorch::Entries(*kept);
}

OptimizerStateFile::Group ReadGroup(const pytorch::Value& value, std::size_t index) {
  OptimizerStateFile::Group group;
  group.places = {static_cast<std::int64_t>(index)};
  std::vector<pytorch::Entry> hyper_parameters;
  for (const pytorch::Entry& entry : *pytorch::Entries(value)) {
    if (pytorch::AsText(*entry.key) != "params") {
      hyper_parameters.push_back(entry);
    } else if (auto numbers = pytorch::AsIntegers(*entry.value)) {
      group.places = std::move(*numbers);
    }
  }
  group.hyper_parameters = pytorch::MakeDict(std::move(hyper_parameters));
  return group;
}

}  // namespace

llvm::Expected<OptimizerStateFile> ReadOptimizerStateFile(SourceArchives& archives) {
  UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives.Open("zero/optimizer_state.pt"));
  ValuePtr inner = Find(archive.root(), "optimizer_state_dict");
  ValuePtr groups = Find(archive.root(), "param_groups");
  if (!groups && inner) groups = Find(*inner, "param_groups");
  if (!groups || pytorch::Items(*groups) == nullptr) {
    return Fail(ErrorCode::kBadData, "`{}` has no list `param_groups`", archive.readable->path());
  }
  OptimizerStateFile file;
  UCP_ASSIGN_OR_RETURN(file.carried, CarriedEntries(archives, archive));
  ValuePtr states = inner ? Find(*inner, "state") : nullptr;
  ValuePtr first = states ? Find(*states, std::int64_t{0}) : nullptr;
  if (ValuePtr step = first ? Find(*first, "step") : nullptr) {
    UCP_ASSIGN_OR_RETURN(file.step, archives.Keep(archive, step, "the step"));
  }
  UCP_ASSIGN_OR_RETURN(groups, archives.Keep(archive, groups, "`param_groups`"));
  for (const ValuePtr& group : *pytorch::Items(*groups)) {
    if (pytorch::Entries(*group) == nullptr) {
      return Fail(ErrorCode::kBadData, "`{}`: an entry of `param_groups` is not a dict", archive.readable->path());
    }
    file.groups.push_back(ReadGroup(*group, file.groups.size()));
  }
  return file;
}

}  // namespace ucp::universal
