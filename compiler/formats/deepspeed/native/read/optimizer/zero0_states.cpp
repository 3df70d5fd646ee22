#include "compiler/formats/deepspeed/native/read/optimizer/zero0_states.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entries;
using pytorch::Find;
using pytorch::Items;
using pytorch::ValuePtr;

// Read here; all other entries are carried on.
constexpr std::array<std::string_view, 5> kKeys = {"optimizer_state_dict", "fp32_groups_flat", "fp32_groups", "state",
                                                   "param_groups"};

class Reader {
 public:
  Reader(SourceArchives& archives, const SourceArchive& archive, ValuePtr root)
      : archive_(archive), optimizer_(archives, archive), root_(std::move(root)) {}

  llvm::Expected<WholeOptimizer> Read() {
    WholeOptimizer whole;
    whole.path = archive_.path;
    UCP_RETURN_IF_ERROR(FindParts(whole.form));
    std::vector<TorchOptimizerReader::Owned> owned;
    std::vector<ValuePtr*> kept;
    whole.groups.resize(param_groups_->size());
    for (std::size_t g = 0; g < whole.groups.size(); ++g) {
      WholeGroup& group = whole.groups[g];
      UCP_RETURN_IF_ERROR(ReadGroup(whole.form, g, group));
      kept.push_back(&group.hyper_parameters);
      for (std::size_t i = 0; i < group.tensors.size(); ++i) {
        owned.emplace_back(NameOf(whole.form, g, i), &group.tensors[i]);
        kept.push_back(&group.tensors[i].step);
      }
    }
    UCP_RETURN_IF_ERROR(optimizer_.CheckDistinctMemory(owned));
    whole.others = EntriesWithout(*root_, kKeys);
    UCP_RETURN_IF_ERROR(optimizer_.Keep(kept, whole.others));
    return whole;
  }

 private:
  static std::string NameOf(WholeForm form, std::size_t group, std::size_t tensor) {
    if (form == WholeForm::kFlatGroups) return fmt::format("group {}", group);
    return fmt::format("parameter {} of group {}", tensor, group);
  }

  llvm::Error FindParts(WholeForm& form) {
    base_ = root_;
    for (const auto& [key, kind] :
         {std::pair("fp32_groups_flat", WholeForm::kFlatGroups), std::pair("fp32_groups", WholeForm::kParameters)}) {
      ValuePtr masters = Find(*root_, key);
      if (!masters) continue;
      form = kind;
      masters_ = Items(*masters);
      if (masters_ == nullptr) return optimizer_.Bad(fmt::format("`{}` is not a list", key));
      base_ = Find(*root_, "optimizer_state_dict");
    }
    ValuePtr groups = base_ ? Find(*base_, "param_groups") : nullptr;
    param_groups_ = groups ? Items(*groups) : nullptr;
    if (param_groups_ == nullptr) return optimizer_.Bad("there are no `param_groups` in its `optimizer`");
    if (masters_ != nullptr && masters_->size() != param_groups_->size()) {
      return optimizer_.Bad(fmt::format("its `optimizer` has {} `param_groups` and masters for {}",
                                        param_groups_->size(), masters_->size()));
    }
    FindStates();
    return llvm::Error::success();
  }

  void FindStates() {
    ValuePtr all = Find(*base_, "state");
    const auto* entries = all ? Entries(*all) : nullptr;
    if (entries == nullptr) return;
    for (const pytorch::Entry& entry : *entries) {
      if (std::optional<std::int64_t> number = pytorch::AsInteger(*entry.key)) states_.emplace(*number, entry.value);
    }
  }

  llvm::Error ReadGroup(WholeForm form, std::size_t index, WholeGroup& group) const {
    const ValuePtr& said = (*param_groups_)[index];
    UCP_ASSIGN_OR_RETURN(std::vector<std::int64_t> numbers, optimizer_.NumbersOf(*said, index));
    group.hyper_parameters = WithoutParams(*said);
    UCP_ASSIGN_OR_RETURN(std::vector<ValuePtr> masters, MastersOf(form, index));
    if (form != WholeForm::kModule && masters.size() != numbers.size()) {
      return optimizer_.Bad(
          fmt::format("group {} has {} masters and steps {} tensors", index, masters.size(), numbers.size()));
    }
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::string name = NameOf(form, index, i);
      SteppedTensor tensor;
      if (form != WholeForm::kModule) {
        UCP_ASSIGN_OR_RETURN(tensor.master, optimizer_.PlaceOf(masters[i], kMasterState, name));
      }
      tensor.step = Find(*said, "step");  // Old files; newer ones may leave a stale 0 there.
      const auto states = states_.find(numbers[i]);
      UCP_RETURN_IF_ERROR(optimizer_.ReadStates(states == states_.end() ? nullptr : states->second, name, tensor));
      group.tensors.push_back(std::move(tensor));
    }
    return llvm::Error::success();
  }

  llvm::Expected<std::vector<ValuePtr>> MastersOf(WholeForm form, std::size_t index) const {
    switch (form) {
      case WholeForm::kModule:
        return std::vector<ValuePtr>();
      case WholeForm::kFlatGroups:
        return std::vector<ValuePtr>{(*masters_)[index]};
      case WholeForm::kParameters:
        break;
    }
    const auto* items = Items(*(*masters_)[index]);
    if (items == nullptr) return optimizer_.Bad(fmt::format("`fp32_groups` {} is not a list", index));
    return *items;
  }

  const SourceArchive& archive_;
  const TorchOptimizerReader optimizer_;
  ValuePtr root_;
  ValuePtr base_;
  const std::vector<ValuePtr>* masters_ = nullptr;
  const std::vector<ValuePtr>* param_groups_ = nullptr;
  std::unordered_map<std::int64_t, ValuePtr> states_;  // By the number of what is stepped.
};

}  // namespace

const TensorPlace* SameShapedTensorOf(WholeForm form, const SteppedTensor& tensor) {
  if (form != WholeForm::kModule) return &tensor.master;
  const TensorPlace* largest = nullptr;
  for (const auto& [state, place] : tensor.states) {
    if (largest == nullptr || place.elements > largest->elements) largest = &place;
  }
  return largest;
}

bool HasUnknownShapes(const WholeOptimizer& optimizer) {
  return std::any_of(optimizer.groups.begin(), optimizer.groups.end(), [&](const WholeGroup& group) {
    return std::any_of(group.tensors.begin(), group.tensors.end(), [&](const SteppedTensor& tensor) {
      return SameShapedTensorOf(optimizer.form, tensor) == nullptr;
    });
  });
}

llvm::Expected<WholeOptimizer> ReadWholeOptimizer(SourceArchives& archives, const SourceArchive& archive,
                                                  const ValuePtr& optimizer) {
  return Reader(archives, archive, optimizer).Read();
}

}  // namespace ucp::deepspeed
