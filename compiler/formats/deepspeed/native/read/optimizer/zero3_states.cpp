#include "compiler/formats/deepspeed/native/read/optimizer/zero3_states.h"

#include <array>

#include "compiler/formats/deepspeed/native/read/optimizer/unread_keys.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entries;
using pytorch::Find;
using pytorch::Items;
using pytorch::ValuePtr;

// Read here; all other entries are carried on.
constexpr std::array<std::string_view, 5> kKeys = {"zero_stage", "partition_count", "optimizer_state_dict",
                                                   "fp32_flat_groups", "ds_zero_partition_groups"};

class Reader {
 public:
  Reader(SourceArchives& archives, const SourceArchive& archive) : archive_(archive), optimizer_(archives, archive) {}

  llvm::Expected<PartitionedStates> Read() {
    UCP_RETURN_IF_ERROR(FindParts());
    PartitionedStates states;
    states.path = archive_.path;
    states.unread_keys = UnreadKeys(archive_.root());
    UCP_ASSIGN_OR_RETURN(states.folding, ReadFolding(archive_.root(), archive_.path));
    if (ValuePtr count = Find(*state_dict_, "partition_count")) states.partition_count = pytorch::AsInteger(*count);
    UCP_RETURN_IF_ERROR(ReadPartitionGroups(states));
    std::vector<ValuePtr*> kept;
    states.sub_groups.resize(masters_->size());
    std::vector<TorchOptimizerReader::Owned> owned;
    for (std::size_t s = 0; s < states.sub_groups.size(); ++s) {
      SteppedTensor& sub_group = states.sub_groups[s];
      UCP_RETURN_IF_ERROR(ReadSubGroup(s, sub_group));
      owned.emplace_back(NameOf(s), &sub_group);
      kept.push_back(&sub_group.step);
    }
    UCP_RETURN_IF_ERROR(optimizer_.CheckDistinctMemory(owned));
    UCP_RETURN_IF_ERROR(ReadGroups(states));
    for (SubGroups& group : states.groups) kept.push_back(&group.hyper_parameters);
    states.others = EntriesWithout(*state_dict_, kKeys);
    UCP_RETURN_IF_ERROR(optimizer_.Keep(kept, states.others));
    return states;
  }

 private:
  static std::string NameOf(std::size_t sub_group) { return fmt::format("sub-group {}", sub_group); }

  llvm::Error FindParts() {
    state_dict_ = Find(archive_.root(), "optimizer_state_dict");
    if (!state_dict_ || Entries(*state_dict_) == nullptr) {
      return optimizer_.Bad("there is no `optimizer_state_dict` in it");
    }
    ValuePtr masters = Find(*state_dict_, "fp32_flat_groups");
    masters_ = masters ? Items(*masters) : nullptr;
    if (masters_ == nullptr) {
      return optimizer_.Bad(
          "there is no list `fp32_flat_groups` in it, as stage 3 has, and the model-states files are "
          "of stage 3");
    }
    base_ = Find(*state_dict_, "optimizer_state_dict");
    ValuePtr groups = base_ ? Find(*base_, "param_groups") : nullptr;
    param_groups_ = groups ? Items(*groups) : nullptr;
    if (param_groups_ == nullptr) return optimizer_.Bad("there are no `param_groups` in it");
    return llvm::Error::success();
  }

  llvm::Error ReadPartitionGroups(PartitionedStates& states) const {
    ValuePtr groups = Find(*state_dict_, "ds_zero_partition_groups");
    const auto* items = groups ? Items(*groups) : nullptr;
    if (items == nullptr) return llvm::Error::success();
    states.partition_ranks.resize(masters_->size());
    for (const ValuePtr& item : *items) {
      ValuePtr index = Find(*item, "sub_group");
      ValuePtr ranks = Find(*item, "partition_ranks");
      const std::int64_t number = index ? pytorch::AsInteger(*index).value_or(-1) : -1;
      auto list = ranks ? pytorch::AsIntegers(*ranks) : std::nullopt;
      if (number < 0 || number >= std::ssize(states.partition_ranks) || !list) {
        return optimizer_.Bad("an entry of `ds_zero_partition_groups` has no `sub_group` or no `partition_ranks`");
      }
      states.partition_ranks[static_cast<std::size_t>(number)] = std::move(*list);
    }
    return llvm::Error::success();
  }

  llvm::Error ReadSubGroup(std::size_t index, SteppedTensor& sub_group) const {
    UCP_ASSIGN_OR_RETURN(sub_group.master, optimizer_.VectorPlace((*masters_)[index], kMasterState, NameOf(index)));
    ValuePtr all = Find(*base_, "state");
    ValuePtr states = all ? Find(*all, static_cast<std::int64_t>(index)) : nullptr;
    return optimizer_.ReadStates(states, NameOf(index), sub_group);
  }

  llvm::Error ReadGroups(PartitionedStates& states) const {
    std::vector<bool> is_member(states.sub_groups.size());
    for (std::size_t g = 0; g < param_groups_->size(); ++g) {
      const ValuePtr& group = (*param_groups_)[g];
      UCP_ASSIGN_OR_RETURN(std::vector<std::int64_t> members, optimizer_.NumbersOf(*group, g));
      SubGroups added{WithoutParams(*group), {}};
      for (std::int64_t member : members) {
        const auto number = static_cast<std::size_t>(member);
        if (member < 0 || number >= is_member.size() || is_member[number]) {
          return optimizer_.Bad(
              fmt::format("`param_groups` {} has the sub-group {}, which is not there or in two "
                          "groups; there are {} in `fp32_flat_groups`",
                          g, member, is_member.size()));
        }
        is_member[number] = true;
        added.members.push_back(number);
        ValuePtr step = Find(*group, "step");
        if (!states.sub_groups[number].step) states.sub_groups[number].step = step;
      }
      states.groups.push_back(std::move(added));
    }
    for (std::size_t s = 0; s < is_member.size(); ++s) {
      if (is_member[s]) continue;
      return optimizer_.Bad(fmt::format("sub-group {} of `fp32_flat_groups` is in none of the `param_groups`", s));
    }
    return llvm::Error::success();
  }

  const SourceArchive& archive_;
  const TorchOptimizerReader optimizer_;
  ValuePtr state_dict_;
  ValuePtr base_;
  const std::vector<ValuePtr>* masters_ = nullptr;
  const std::vector<ValuePtr>* param_groups_ = nullptr;
};

}  // namespace

llvm::Expected<PartitionedStates> ReadPartitionedStates(SourceArchives& archives, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives.Open(path));
  return Reader(archives, archive).Read();
}

}  // namespace ucp::deepspeed
