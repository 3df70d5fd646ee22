// The folder, in the order in which it is laid out:
//
//   __<rank>_0.distcp   the items of a rank: in rank 0's, values first; then weights; then states of the optimizer
//   .metadata           where they are
//
// with Accelerate's names once for the model and once for the optimizer. Each item is an archive of torch.save, whose
// headers are known; those of equal dtype and shape are equal.
#include "compiler/formats/dcp/write/write.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/counted_entries.h"
#include "compiler/formats/dcp/write/element_items.h"
#include "compiler/formats/dcp/write/flatten.h"
#include "compiler/formats/dcp/write/folder.h"
#include "compiler/formats/dcp/write/groups.h"
#include "compiler/formats/dcp/write/options.h"
#include "compiler/formats/dcp/write/style.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/support/user_option.h"

namespace ucp::dcp {
namespace {

using pytorch::Entry;
using pytorch::ValuePtr;

constexpr std::string_view kLightningVersion = "pytorch-lightning_version";

// A tensor by one of its names: a tied one has several, and PyTorch's state dicts have an entry for each.
struct NamedTensor {
  std::size_t tensor = 0;
  std::string name;
};

class Writer {
 public:
  Writer(const TargetRequest& request, WriteOptions options)
      : request_(request),
        options_(std::move(options)),
        style_(StyleOfTarget(request.strategy, request.training)),
        items_(request, PartOf(request.training), target_) {}

  llvm::Expected<TargetFiles> Run() {
    target_.format = "dcp";
    target_.mesh = request_.layout.mesh;
    target_.weights_only = options_.weights_alone;
    folders_.emplace_back(style_.model_folder());
    if (style_.optimizer_folder() != style_.model_folder() && HasOptimizer()) {
      folders_.emplace_back(style_.optimizer_folder());
    }
    NameTensors();
    UCP_RETURN_IF_ERROR(AddModel());
    if (HasOptimizer()) UCP_RETURN_IF_ERROR(AddOptimizer());
    if (!options_.weights_alone) UCP_RETURN_IF_ERROR(AddOthers());
    for (Folder& folder : folders_) items_.Write(folder, options_.release);
    if (!style_.other_file().empty() && !options_.weights_alone) WriteOtherFile();
    for (const CompanionFile& file : request_.companions) AddFile(target_, file.name, file.content);
    items_.AddShards();
    return std::move(target_);
  }

 private:
  bool HasOptimizer() const { return !options_.weights_alone && request_.training.absent_optimizer.empty(); }
  Folder& of_model() { return folders_.front(); }
  Folder& of_optimizer() { return folders_.back(); }

  // Every tensor by its own name, in the order of the tensors, and then the other names.
  void NameTensors() {
    for (std::size_t t = 0; t < request_.tensors.size(); ++t) {
      named_.push_back({t, request_.tensors[t].name});
      number_.emplace(request_.tensors[t].name, t);
    }
    for (const auto& [alias, canonical] : request_.training.aliases) {
      const auto found = number_.find(canonical);
      if (found != number_.end() && !number_.contains(alias)) named_.push_back({found->second, alias});
    }
    for (const NamedTensor& named : named_) items_.AddHolder(named.tensor);
  }

  // The parameters in the order of the optimizer's groups, since readers take them from here; then all others, and
  // other names last.
  std::vector<std::size_t> Ordered() const {
    std::vector<std::size_t> ordered;
    std::vector<bool> is_there(request_.tensors.size());
    const auto add = [&](std::size_t tensor) {
      if (!is_there[tensor]) ordered.push_back(tensor);
      is_there[tensor] = true;
    };
    for (const OptimizerGroup& group : request_.training.groups) {
      for (const std::string& name : group.parameters) {
        if (const auto found = number_.find(name); found != number_.end()) add(found->second);
      }
    }
    for (std::size_t t = 0; t < request_.tensors.size(); ++t) add(t);
    for (std::size_t alias = request_.tensors.size(); alias < named_.size(); ++alias) ordered.push_back(alias);
    return ordered;
  }

  llvm::Error AddModel() {
    std::string rounded;
    for (std::size_t n : Ordered()) {
      const LogicalTensor& tensor = request_.tensors[named_[n].tensor];
      const LogicalTensor::State* master = FindState(tensor, kMasterState);
      const LogicalTensor::State* fed = master != nullptr ? master : FindState(tensor, kWeightState);
      if (fed == nullptr) {
        return Fail(ErrorCode::kUnsupported, "tensor `{}` has neither a weight nor a master", tensor.name);
      }
      const bool is_cast = options_.dtype && tensor.kind != TensorKind::kBuffer && IsFloatingPoint(fed->dtype);
      DType dtype = is_cast ? *options_.dtype : fed->dtype;
      if (!is_cast && options_.weights_alone) dtype = tensor.weight.value_or(fed->dtype);
      const bool is_rounded = tensor.weight && ItemBytes(*tensor.weight) < ItemBytes(dtype);
      if (is_rounded && rounded.empty()) rounded = Name(*tensor.weight);
      const std::string state = options_.weights_alone ? kWeightState : fed->name;
      UCP_RETURN_IF_ERROR(AddTensor(of_model(), style_.Model(named_[n].name), {n, state, dtype}));
    }
    if (!rounded.empty()) {
      target_.remarks.push_back(fmt::format(
          "the model computes in {}, and its weights are written as their masters; `dtype=` rounds them", rounded));
    }
    return llvm::Error::success();
  }

  llvm::Error AddOptimizer() {
    for (std::size_t n : Ordered()) {
      if (n >= request_.tensors.size()) continue;  // Another name.
      const LogicalTensor& tensor = request_.tensors[n];
      for (const LogicalTensor::State& state : tensor.states) {
        if (state.name == kWeightState || state.name == kMasterState) continue;
        UCP_RETURN_IF_ERROR(
            AddTensor(of_optimizer(), style_.State(tensor.name, state.name), {n, state.name, state.dtype}));
      }
    }
    UCP_RETURN_IF_ERROR(AddLooseStates());
    const GroupEntries groups = EntriesOfGroups(request_.training, request_.tensors, style_, options_.release);
    for (const StepEntry& step : groups.steps) UCP_RETURN_IF_ERROR(AddStep(step));
    for (const FlatEntry& entry : groups.values) UCP_RETURN_IF_ERROR(AddValue(of_optimizer(), entry));
    if (!groups.added.empty()) {
      target_.remarks.push_back(
          fmt::format("PyTorch's optimizers have the settings {}, which the source lacks; they are written with "
                      "PyTorch's defaults",
                      fmt::join(groups.added, ", ")));
    }
    return llvm::Error::success();
  }

  // They have no element of their parameter each, so that no cut of it cuts them.
  llvm::Error AddLooseStates() {
    for (const LooseState& state : request_.training.loose_states) {
      const std::string why = state.parameter.empty() ? "a dcp folder has no place for it" : state.why_not_carried;
      if (!why.empty()) {
        return Fail(ErrorCode::kUnsupported, "{}: it is not one number for each element, and {}; {} leaves it out",
                    state.sentence, why, OptionName(UserOption::kDropStates, state.name));
      }
      UCP_RETURN_IF_ERROR(AddNestedTo(of_optimizer(), style_.State(state.parameter, state.name), state.value));
    }
    return llvm::Error::success();
  }

  // Other formats' engines keep entries of their own, which a job of PyTorch has no use for.
  llvm::Error AddOthers() {
    const TrainingState& training = request_.training;
    const RankState& rank = training.ranks[training.counting_rank];
    for (const Entry& entry : rank.module_extras) {
      const auto name = pytorch::AsText(*entry.key);
      if (name) UCP_RETURN_IF_ERROR(AddValue(of_model(), {style_.Model(std::string(*name)), entry.value}));
    }
    const KeptNames* of_source = KeptNamesOf(training);
    std::set<std::string> left;
    for (const Entry& entry : training.engine) {
      const std::string key(pytorch::AsText(*entry.key).value_or(""));
      const bool is_schedule = key == "lr_scheduler";
      const bool is_kept =
          of_source != nullptr ? of_source->engine_entries.contains(key) : is_schedule && !entry.value->is_none();
      if (is_kept) UCP_RETURN_IF_ERROR(AddOther(key, entry.value));
      if (of_source == nullptr && !is_schedule && !IsCountedEntry(training, entry)) left.insert(key);
    }
    for (const Entry& entry : training.optimizer) {
      const auto key = pytorch::AsText(*entry.key).value_or("");
      if (of_source == nullptr) {
        left.emplace(key);
      } else if (HasOptimizer()) {
        UCP_RETURN_IF_ERROR(AddNestedTo(of_optimizer(), Below(style_.optimizer(), std::string(key)), entry.value));
      }
    }
    for (const Entry& entry : rank.client) {
      if (const auto key = pytorch::AsText(*entry.key)) {
        UCP_RETURN_IF_ERROR(AddOther(std::string(*key), entry.value));
      }
    }
    if (!left.empty()) {
      target_.remarks.push_back(fmt::format(
          "entries of the source's engine that PyTorch does not have are left out: {}", fmt::join(left, ", ")));
    }
    if (training.ranks.size() > 1) {
      target_.remarks.push_back(
          fmt::format("of the client states of {} model-parallel ranks, that of rank {} is written",
                      training.ranks.size(), training.counting_rank));
    }
    return llvm::Error::success();
  }

  // Accelerate's merge_fsdp_weights() takes a folder of a model that has nothing beside `model`.
  llvm::Error AddOther(const std::string& key, const ValuePtr& value) {
    if (style_.other_file().empty()) return AddNestedTo(of_optimizer(), {key}, value);
    in_other_file_.push_back({pytorch::MakeText(key), value});
    return llvm::Error::success();
  }

  // Lightning finds no checkpoint in a folder without it.
  void WriteOtherFile() {
    if (FindEntry(in_other_file_, kLightningVersion) == nullptr) {
      target_.remarks.push_back(fmt::format(
          "the source's training state has no `{}`: Lightning's Fabric loads the folder, and its Trainer does not",
          kLightningVersion));
    }
    ArchiveComposer composer(request_.training);
    const ValuePtr root = pytorch::MakeDict(composer.AddEntries(in_other_file_));
    AddFile(target_, style_.other_file(), composer.Compose(root));
  }

  llvm::Error AddNestedTo(Folder& folder, const EntryPath& path, const ValuePtr& value) {
    std::vector<FlatEntry> entries;
    Flatten(path, value, options_.release, entries);
    for (const FlatEntry& entry : entries) UCP_RETURN_IF_ERROR(AddValue(folder, entry));
    return llvm::Error::success();
  }

  // All boxes of one state of a tensor.
  llvm::Error AddTensor(Folder& folder, EntryPath path, const Elements& elements) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    UCP_ASSIGN_OR_RETURN(WrittenEntry * entry, folder.NewEntry(std::move(path)));
    items_.Add(folder, *entry, elements);
    return llvm::Error::success();
  }

  llvm::Error AddStep(const StepEntry& step) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(step.step));
    const SharedArchive*& archive = archive_of_step_[bits];
    if (archive == nullptr) {
      std::string bytes;
      for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(bits >> (8 * i) & 0xff));
      ArchiveComposer composer(request_.training);
      const ValuePtr tensor = composer.AddData(DType::kFloat32, {}, std::move(bytes));
      archive = &archives_.emplace_back(Share(target_, composer.Compose(tensor)));
    }
    UCP_ASSIGN_OR_RETURN(WrittenEntry * entry, of_optimizer().NewEntry(step.path));
    entry->is_tensor = true;
    of_optimizer().AddKnown(archive);
    return llvm::Error::success();
  }

  llvm::Error AddValue(Folder& folder, const FlatEntry& value) {
    const SharedArchive*& archive = archive_of_value_[value.value];
    if (archive == nullptr) {
      ArchiveComposer composer(request_.training);
      archive = &archives_.emplace_back(Share(target_, composer.Compose(composer.AddValue(value.value))));
    }
    UCP_ASSIGN_OR_RETURN(WrittenEntry * entry, folder.NewEntry(value.path));
    if (const auto* tensor = value.value->As<pytorch::Tensor>()) {
      entry->is_tensor = true;
      entry->dtype = tensor->dtype;
      entry->shape = tensor->sizes;
    }
    folder.AddKnown(archive);
    return llvm::Error::success();
  }

  const TargetRequest& request_;
  const WriteOptions options_;
  const Style style_;
  TargetFiles target_;
  ElementItems items_;
  std::vector<Folder> folders_;
  std::unordered_map<std::string_view, std::size_t> number_;  // Of each tensor, by its own name.
  std::vector<NamedTensor> named_;                            // By holder.
  std::vector<Entry> in_other_file_;
  std::deque<SharedArchive> archives_;  // The following members point into them.
  std::map<std::uint32_t, const SharedArchive*> archive_of_step_;
  std::unordered_map<ValuePtr, const SharedArchive*> archive_of_value_;
};

}  // namespace

llvm::Expected<TargetFiles> LayOutFolder(const TargetRequest& request) {
  UCP_ASSIGN_OR_RETURN(const WriteOptions options, ReadOptions(request.strategy));
  return Writer(request, options).Run();
}

}  // namespace ucp::dcp
