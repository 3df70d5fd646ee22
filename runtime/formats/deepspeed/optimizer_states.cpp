#include "runtime/formats/deepspeed/optimizer_states.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "compiler/support/error.h"
#include "runtime/formats/pytorch/value_access.h"

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
constexpr std::array<std::string_view, 9> kPartitionKeys = {
    "base_optimizer_state",     "single_partition_of_fp32_groups", "zero_stage",           "group_paddings",
    "partition_count",          "param_alignment_paddings",        "param_slice_mappings", "universal_checkpoint_info",
    "base_optimizer_state_step"};

class Reader {
 public:
  Reader(SourceArchives& archives, SourceArchive archive) : archives_(archives), archive_(std::move(archive)) {}

  llvm::Expected<OptimizerStates> Read() {
    UCP_RETURN_IF_ERROR(FindParts());
    const std::size_t groups = masters_->size();
    const Value& root = *state_dict_;
    for (const char* key : {"partition_count", "param_slice_mappings", "param_alignment_paddings"}) {
      UCP_RETURN_IF_ERROR(CheckLength(Find(root, key), key, groups));
    }
    UCP_RETURN_IF_ERROR(CheckLength(param_groups_, "param_groups", groups));
    OptimizerStates states;
    states.path = archive_.path;
    states.is_bf16_optimizer = !Find(root, "zero_stage");
    for (std::size_t g = 0; g < groups; ++g) {
      UCP_ASSIGN_OR_RETURN(GroupPartition group, ReadGroup(g));
      states.groups.push_back(std::move(group));
    }
    UCP_RETURN_IF_ERROR(CheckDistinctMemory(states.groups));
    UCP_RETURN_IF_ERROR(KeepSmallValues(states));
    return states;
  }

 private:
  const std::string& path() const { return archive_.readable->path(); }

  llvm::Error Bad(const std::string& sentence) const { return Fail(ErrorCode::kBadData, "`{}`: {}", path(), sentence); }
  llvm::Error Unsupported(const std::string& found) const {
    return Fail(ErrorCode::kUnsupported, "`{}` {}, which this version does not read yet", path(), found);
  }

  llvm::Error FindParts() {
    state_dict_ = Find(archive_.root(), "optimizer_state_dict");
    if (!state_dict_ || Entries(*state_dict_) == nullptr) return Bad("there is no `optimizer_state_dict` in it");
    UCP_RETURN_IF_ERROR(CheckStage());
    base_ = Find(*state_dict_, "base_optimizer_state");
    if (!base_) return Bad("there is no `base_optimizer_state` in it");
    if (base_->As<pytorch::List>() != nullptr) {
      return Unsupported("holds the states as a list: it is an elastic checkpoint");
    }
    ValuePtr masters = Find(*state_dict_, "single_partition_of_fp32_groups");
    masters_ = masters ? Items(*masters) : nullptr;
    if (masters_ == nullptr) return Bad("there is no list `single_partition_of_fp32_groups` in it");
    param_groups_ = Find(*base_, "param_groups");
    if (!param_groups_) return Bad("there are no `param_groups` in it");
    return llvm::Error::success();
  }

  llvm::Error CheckStage() {
    if (Find(*state_dict_, "fp32_flat_groups")) return Unsupported("is of ZeRO stage 3");
    if (Find(*state_dict_, "ds_zero_partition_groups")) return Unsupported("has partition groups of experts");
    ValuePtr value = Find(*state_dict_, "zero_stage");
    if (!value) return llvm::Error::success();  // BF16_Optimizer.
    bool is_served = false;
    if (auto number = AsInteger(*value)) is_served = *number == 1 || *number == 2;
    if (auto member = pytorch::AsEnumMember(*value)) {
      const auto* number = std::get_if<std::int64_t>(&member->member);
      const auto* name = std::get_if<std::string>(&member->member);
      is_served =
          (number && (*number == 1 || *number == 2)) || (name && (*name == "optimizer_states" || *name == "gradients"));
    }
    if (is_served) return llvm::Error::success();
    return Unsupported(fmt::format("has the ZeRO stage `{}`", pytorch::Print(*value)));
  }

  llvm::Error CheckLength(const ValuePtr& value, std::string_view key, std::size_t groups) const {
    if (!value || value->is_none()) return llvm::Error::success();
    const auto* items = Items(*value);
    if (items != nullptr && items->size() == groups) return llvm::Error::success();
    if (items == nullptr) return Bad(fmt::format("`{}` is not a list", key));
    return Bad(fmt::format("`{}` has {} groups and `single_partition_of_fp32_groups` {}", key, items->size(), groups));
  }

  ValuePtr ItemOf(std::string_view key, std::size_t group) const {
    ValuePtr list = Find(*state_dict_, key);
    const auto* items = list ? Items(*list) : nullptr;
    return items != nullptr ? (*items)[group] : nullptr;
  }

  llvm::Expected<GroupPartition> ReadGroup(std::size_t index) {
    GroupPartition group;
    const auto* master = (*masters_)[index]->As<pytorch::Tensor>();
    if (master == nullptr) return Bad(fmt::format("the fp32 partition of group {} is not a tensor", index));
    UCP_ASSIGN_OR_RETURN(group.master, VectorPlace(*master, kMasterState, index));
    group.hyper_parameters = (*Items(*param_groups_))[index];
    if (Entries(*group.hyper_parameters) == nullptr) {
      return Bad(fmt::format("`param_groups` {} is not a dict", index));
    }
    if (ValuePtr moe = Find(*group.hyper_parameters, "moe"); moe && pytorch::AsBool(*moe).value_or(true)) {
      return Unsupported(fmt::format("has a group of experts, number {}", index));
    }
    UCP_RETURN_IF_ERROR(ReadStates(index, group));
    if (ValuePtr count = ItemOf("partition_count", index)) group.partition_count = AsInteger(*count);
    if (ValuePtr paddings = ItemOf("param_alignment_paddings", index)) {
      auto numbers = pytorch::AsIntegers(*paddings);
      bool is_sane = numbers && std::all_of(numbers->begin(), numbers->end(), [](auto n) { return n >= 0; });
      if (!is_sane) return Bad(fmt::format("`param_alignment_paddings` {} is not a list of lengths", index));
      group.alignment_paddings = std::move(*numbers);
    }
    if (ValuePtr mapping = ItemOf("param_slice_mappings", index)) ReadAddresses(*mapping, group);
    return group;
  }

  llvm::Expected<TensorPlace> VectorPlace(const pytorch::Tensor& tensor, const std::string& state, std::size_t index) {
    TensorPlace place = archives_.PlaceOf(archive_, tensor);
    if (place.sizes.size() != 1 || !place.strides.empty()) {
      return Bad(fmt::format("`{}` of group {} is not a contiguous vector", state, index));
    }
    return place;
  }

  // An optimizer cannot have kept two states in the same bytes: one of them is lost.
  llvm::Error CheckDistinctMemory(const std::vector<GroupPartition>& groups) const {
    struct Span {
      RecordId record;
      std::int64_t begin = 0;  // In bytes.
      std::int64_t end = 0;
      std::string name;
    };
    std::vector<Span> spans;
    auto add = [&](std::size_t group, const std::string& state, const TensorPlace& place) {
      if (place.elements == 0) return;
      const std::int64_t item = ItemBytes(place.dtype);
      spans.push_back({place.record, place.offset * item, (place.offset + place.elements) * item,
                       fmt::format("`{}` of group {}", state, group)});
    };
    for (std::size_t g = 0; g < groups.size(); ++g) {
      add(g, kMasterState, groups[g].master);
      for (const auto& [state, place] : groups[g].states) add(g, state, place);
    }
    std::sort(spans.begin(), spans.end(),
              [](const Span& a, const Span& b) { return std::tie(a.record, a.begin) < std::tie(b.record, b.begin); });
    for (std::size_t i = 1; i < spans.size(); ++i) {
      const Span& a = spans[i - 1];
      const Span& b = spans[i];
      if (a.record != b.record || b.begin >= a.end) continue;
      return Bad(fmt::format("{} and {} are the same memory, and an optimizer's states never are", a.name, b.name));
    }
    return llvm::Error::success();
  }

  // The optimizer's own state of a group: vectors as long as the partition, and a step.
  llvm::Error ReadStates(std::size_t index, GroupPartition& group) {
    ValuePtr all = Find(*base_, "state");
    ValuePtr states = all ? Find(*all, static_cast<std::int64_t>(index)) : nullptr;
    group.step = Find(*group.hyper_parameters, "step");  // Old files; newer ones may leave a stale 0 there.
    if (!states) return llvm::Error::success();          // Before the first step.
    const auto* entries = Entries(*states);
    if (entries == nullptr) return Bad(fmt::format("the optimizer state of group {} is not a dict", index));
    for (const pytorch::Entry& entry : *entries) {
      auto key = AsText(*entry.key);
      if (!key) return Bad(fmt::format("the optimizer state of group {} has a key that is not a string", index));
      UCP_RETURN_IF_ERROR(ReadState(std::string(*key), entry.value, index, group));
    }
    return llvm::Error::success();
  }

  llvm::Error ReadState(const std::string& name, const ValuePtr& value, std::size_t index, GroupPartition& group) {
    if (name == "step") {
      group.step = value;
      return llvm::Error::success();
    }
    if (value->is_none()) return llvm::Error::success();  // torch.optim.SGD without momentum.
    const auto* tensor = value->As<pytorch::Tensor>();
    if (tensor == nullptr || tensor->sizes.size() != 1 || name == kMasterState || name == kWeightState) {
      return Unsupported(
          fmt::format("has an optimizer state `{}` of group {} that is not one number for each element", name, index));
    }
    UCP_ASSIGN_OR_RETURN(TensorPlace place, VectorPlace(*tensor, name, index));
    group.states.emplace(name, std::move(place));
    return llvm::Error::success();
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

  // Hyper-parameters, steps and the rest in one go, so that what they share stays shared.
  llvm::Error KeepSmallValues(OptimizerStates& states) {
    std::vector<ValuePtr> hyper, steps;
    for (GroupPartition& group : states.groups) {
      hyper.push_back(WithoutParams(*group.hyper_parameters));
      steps.push_back(group.step ? group.step : pytorch::MakeNone());
    }
    std::vector<pytorch::Entry> others;
    for (const pytorch::Entry& entry : *Entries(*state_dict_)) {
      auto key = AsText(*entry.key);
      bool is_read_here = key && std::find(kPartitionKeys.begin(), kPartitionKeys.end(), *key) != kPartitionKeys.end();
      if (!is_read_here) others.push_back(entry);
    }
    ValuePtr all = pytorch::MakeTuple({pytorch::MakeTuple(std::move(hyper)), pytorch::MakeTuple(std::move(steps)),
                                       pytorch::MakeDict(std::move(others))});
    UCP_ASSIGN_OR_RETURN(ValuePtr kept, archives_.Keep(archive_, all, "its optimizer state"));
    const auto& parts = *Items(*kept);
    for (std::size_t g = 0; g < states.groups.size(); ++g) {
      GroupPartition& group = states.groups[g];
      group.hyper_parameters = (*Items(*parts[0]))[g];
      ValuePtr step = (*Items(*parts[1]))[g];
      group.step = step->is_none() ? nullptr : step;
    }
    states.others = *Entries(*parts[2]);
    return llvm::Error::success();
  }

  static ValuePtr WithoutParams(const Value& group) {
    std::vector<pytorch::Entry> kept;
    for (const pytorch::Entry& entry : *Entries(group)) {
      if (AsText(*entry.key) != "params") kept.push_back(entry);
    }
    return pytorch::MakeDict(std::move(kept));
  }

  SourceArchives& archives_;
  SourceArchive archive_;
  ValuePtr state_dict_;
  ValuePtr base_;
  ValuePtr param_groups_;
  const std::vector<ValuePtr>* masters_ = nullptr;
};

}  // namespace

llvm::Expected<OptimizerStates> ReadOptimizerStates(SourceArchives& archives, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives.Open(path));
  return Reader(archives, std::move(archive)).Read();
}

}  // namespace ucp::deepspeed
