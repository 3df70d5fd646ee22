#include "compiler/formats/deepspeed/native/read/optimizer/zero12_states.h"

#include <algorithm>
#include <array>

#include "compiler/formats/deepspeed/native/read/optimizer/unread_keys.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using pytorch::AsInteger;
using pytorch::AsText;
using pytorch::Entries;
using pytorch::Find;
using pytorch::Items;
using pytorch::Value;
using pytorch::ValuePtr;

// Read here; all other entries are carried on.
constexpr std::array<std::string_view, 11> kPartitionKeys = {"base_optimizer_state",
                                                             "single_partition_of_fp32_groups",
                                                             "zero_stage",
                                                             "group_paddings",
                                                             "partition_count",
                                                             "param_alignment_paddings",
                                                             "param_slice_mappings",
                                                             "universal_checkpoint_info",
                                                             "base_optimizer_state_step",
                                                             "num_comm_intervals_per_group",
                                                             "local_sub_partitions_of_fp32_groups"};

class Reader {
 public:
  Reader(SourceArchives& archives, const SourceArchive& archive) : archive_(archive), optimizer_(archives, archive) {}

  llvm::Expected<OptimizerStates> Read() {
    UCP_RETURN_IF_ERROR(FindParts());
    const std::size_t groups = masters_->size();
    const Value& root = *state_dict_;
    const ValuePtr count = Find(root, "partition_count");
    if (count) one_partition_count_ = AsInteger(*count);  // Before 0.5.4, one for all groups.
    if (!one_partition_count_) UCP_RETURN_IF_ERROR(CheckLength(count, "partition_count", groups));
    for (const char* key : {"param_slice_mappings", "param_alignment_paddings"}) {
      UCP_RETURN_IF_ERROR(CheckLength(Find(root, key), key, groups));
    }
    UCP_RETURN_IF_ERROR(is_elastic_ ? CheckLength(base_, "base_optimizer_state", groups)
                                    : CheckLength(param_groups_, "param_groups", groups));
    OptimizerStates states;
    states.path = archive_.path;
    states.unread_keys = UnreadKeys(archive_.root());
    UCP_ASSIGN_OR_RETURN(states.folding, ReadFolding(archive_.root(), archive_.path));
    states.is_bf16_optimizer = !Find(root, "zero_stage");
    states.kind = stage_ == 0 ? "BF16_Optimizer" : fmt::format("stage {}", stage_);
    if (is_elastic_) states.kind += ", elastic";
    for (std::size_t g = 0; g < groups; ++g) {
      UCP_ASSIGN_OR_RETURN(GroupPartition group, ReadGroup(g));
      states.groups.push_back(std::move(group));
    }
    std::vector<TorchOptimizerReader::Owned> owned;
    std::vector<ValuePtr*> kept;
    for (std::size_t g = 0; g < groups; ++g) {
      owned.emplace_back(fmt::format("group {}", g), &states.groups[g]);
      kept.insert(kept.end(), {&states.groups[g].hyper_parameters, &states.groups[g].step});
    }
    UCP_RETURN_IF_ERROR(optimizer_.CheckDistinctMemory(owned));
    states.others = EntriesWithout(*state_dict_, kPartitionKeys);
    UCP_RETURN_IF_ERROR(optimizer_.Keep(kept, states.others));
    return states;
  }

 private:
  llvm::Error FindParts() {
    state_dict_ = Find(archive_.root(), "optimizer_state_dict");
    if (!state_dict_ || Entries(*state_dict_) == nullptr)
      return optimizer_.Bad("there is no `optimizer_state_dict` in it");
    UCP_RETURN_IF_ERROR(CheckStage());
    base_ = Find(*state_dict_, "base_optimizer_state");
    if (!base_) return optimizer_.Bad("there is no `base_optimizer_state` in it");
    is_elastic_ = base_->As<pytorch::List>() != nullptr;
    master_list_ = Find(*state_dict_, "single_partition_of_fp32_groups");
    if (!master_list_) {
      UCP_ASSIGN_OR_RETURN(master_list_, OnlySubPartitions());
    }
    masters_ = master_list_ ? Items(*master_list_) : nullptr;
    if (masters_ == nullptr) return optimizer_.Bad("there is no list `single_partition_of_fp32_groups` in it");
    param_groups_ = Find(*base_, "param_groups");
    if (!param_groups_ && !is_elastic_) return optimizer_.Bad("there are no `param_groups` in it");
    return llvm::Error::success();
  }

  // Stage 1 before 0.3.17 cut a partition into one vector for each of its communication intervals. Where there is one
  // interval, the partition is that vector. The states also stand in such lists, and are taken out. Returns null if the
  // file has no such list.
  llvm::Expected<ValuePtr> OnlySubPartitions() {
    ValuePtr all = Find(*state_dict_, "local_sub_partitions_of_fp32_groups");
    if (!all) return nullptr;
    UCP_ASSIGN_OR_RETURN(ValuePtr masters, OnlyItems(*all, "local_sub_partitions_of_fp32_groups"));
    if (is_elastic_) {
      UCP_ASSIGN_OR_RETURN(base_, OnlyItems(*base_, "base_optimizer_state"));
    }
    return masters;
  }

  // [[a], [b]] is [a, b].
  llvm::Expected<ValuePtr> OnlyItems(const Value& lists, std::string_view key) const {
    const auto* items = Items(lists);
    if (items == nullptr) return optimizer_.Bad(fmt::format("`{}` is not a list", key));
    std::vector<ValuePtr> only;
    for (const ValuePtr& item : *items) {
      const auto* inner = Items(*item);
      if (inner == nullptr) return optimizer_.Bad(fmt::format("`{}` is not a list of lists", key));
      if (inner->size() != 1) {
        return optimizer_.Unsupported(fmt::format(
            "has {} sub-partitions of a group, one for each communication interval of the old stage 1", inner->size()));
      }
      only.push_back(inner->front());
    }
    return pytorch::MakeList(std::move(only));
  }

  llvm::Error CheckStage() {
    if (Find(*state_dict_, "fp32_flat_groups")) return optimizer_.Unsupported("is of ZeRO stage 3");
    if (Find(*state_dict_, "ds_zero_partition_groups"))
      return optimizer_.Unsupported("has partition groups of experts");
    ValuePtr value = Find(*state_dict_, "zero_stage");
    if (!value) return llvm::Error::success();  // BF16_Optimizer.
    if (auto number = AsInteger(*value)) stage_ = *number;
    if (auto member = pytorch::AsEnumMember(*value)) {
      if (const auto* number = std::get_if<std::int64_t>(&member->member)) stage_ = *number;
      if (const auto* name = std::get_if<std::string>(&member->member)) {
        stage_ = *name == "optimizer_states" ? 1 : (*name == "gradients" ? 2 : 0);
      }
    }
    if (stage_ == 1 || stage_ == 2) return llvm::Error::success();
    return optimizer_.Unsupported(fmt::format("has the ZeRO stage `{}`", pytorch::Print(*value)));
  }

  llvm::Error CheckLength(const ValuePtr& value, std::string_view key, std::size_t groups) const {
    if (!value || value->is_none()) return llvm::Error::success();
    const auto* items = Items(*value);
    if (items != nullptr && items->size() == groups) return llvm::Error::success();
    if (items == nullptr) return optimizer_.Bad(fmt::format("`{}` is not a list", key));
    return optimizer_.Bad(
        fmt::format("`{}` has {} groups and `single_partition_of_fp32_groups` {}", key, items->size(), groups));
  }

  ValuePtr ItemOf(std::string_view key, std::size_t group) const {
    ValuePtr list = Find(*state_dict_, key);
    const auto* items = list ? Items(*list) : nullptr;
    return items != nullptr ? (*items)[group] : nullptr;
  }

  llvm::Expected<GroupPartition> ReadGroup(std::size_t index) {
    GroupPartition group;
    const std::string name = fmt::format("group {}", index);
    UCP_ASSIGN_OR_RETURN(group.master, optimizer_.VectorPlace((*masters_)[index], kMasterState, name));
    UCP_RETURN_IF_ERROR(is_elastic_ ? ReadElasticStates(index, name, group) : ReadRigidStates(index, name, group));
    group.partition_count = one_partition_count_;
    if (ValuePtr count = ItemOf("partition_count", index)) group.partition_count = AsInteger(*count);
    if (ValuePtr paddings = ItemOf("param_alignment_paddings", index)) {
      auto numbers = pytorch::AsIntegers(*paddings);
      bool is_sane = numbers && std::all_of(numbers->begin(), numbers->end(), [](auto n) { return n >= 0; });
      if (!is_sane) return optimizer_.Bad(fmt::format("`param_alignment_paddings` {} is not a list of lengths", index));
      group.alignment_paddings = std::move(*numbers);
    }
    if (ValuePtr mapping = ItemOf("param_slice_mappings", index)) ReadAddresses(*mapping, group);
    return group;
  }

  // A torch optimizer's state_dict().
  llvm::Error ReadRigidStates(std::size_t index, const std::string& name, GroupPartition& group) const {
    const ValuePtr& said = (*Items(*param_groups_))[index];
    if (Entries(*said) == nullptr) return optimizer_.Bad(fmt::format("`param_groups` {} is not a dict", index));
    if (ValuePtr moe = Find(*said, "moe"); moe && pytorch::AsBool(*moe).value_or(true)) group.is_of_experts = true;
    group.hyper_parameters = WithoutParams(*said);
    group.step = Find(*said, "step");  // Old files; newer ones may leave a stale 0 there.
    ValuePtr all = Find(*base_, "state");
    return optimizer_.ReadStates(all ? Find(*all, static_cast<std::int64_t>(index)) : nullptr, name, group);
  }

  // The states alone, without padding; the step beside them, if its optimizer keeps it with the group.
  llvm::Error ReadElasticStates(std::size_t index, const std::string& name, GroupPartition& group) const {
    group.is_lean = true;
    ValuePtr step = Find(*state_dict_, "base_optimizer_state_step");
    if (step && step->is_none()) step = nullptr;
    group.hyper_parameters = pytorch::MakeDict(step ? std::vector{pytorch::Entry{pytorch::MakeText("step"), step}}
                                                    : std::vector<pytorch::Entry>());
    group.step = step;
    return optimizer_.ReadStates((*Items(*base_))[index], name, group);
  }

  static void ReadAddresses(const Value& mapping, GroupPartition& group) {
    const auto* entries = Entries(mapping);
    if (entries == nullptr) return;
    for (const pytorch::Entry& entry : *entries) {
      auto name = AsText(*entry.key);
      ValuePtr start = Find(*entry.value, "start");
      ValuePtr numel = Find(*entry.value, "numel");
      if (!name || !start || !numel) continue;
      group.addresses[std::string(*name)] = {AsInteger(*start).value_or(-1), AsInteger(*numel).value_or(-1)};
    }
  }

  const SourceArchive& archive_;
  const TorchOptimizerReader optimizer_;
  ValuePtr state_dict_;
  ValuePtr base_;
  ValuePtr param_groups_;
  ValuePtr master_list_;
  const std::vector<ValuePtr>* masters_ = nullptr;
  bool is_elastic_ = false;
  std::optional<std::int64_t> one_partition_count_;
  std::int64_t stage_ = 0;  // 0: it does not say.
};

}  // namespace

llvm::Expected<OptimizerStates> ReadOptimizerStates(SourceArchives& archives, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives.Open(path));
  return Reader(archives, archive).Read();
}

}  // namespace ucp::deepspeed
