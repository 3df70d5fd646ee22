// The entries' names say which are the model's tensors and which are states of its optimizer. Those become shards, and
// all others the training state.
#include "compiler/formats/dcp/entries/describe_entries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/formats/dcp/entries/engine_entries.h"
#include "compiler/formats/dcp/entries/loose.h"
#include "compiler/formats/dcp/entries/nested.h"
#include "compiler/formats/dcp/entries/optimizer.h"
#include "compiler/formats/dcp/entries/parameter_order.h"
#include "compiler/formats/dcp/entries/roles.h"
#include "compiler/formats/dcp/entries/shards.h"
#include "compiler/formats/dcp/entries/source_style.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::dcp {
namespace {

constexpr const char* kStep = "step";

class Description {
 public:
  Description(const StateDict& state, StoredItems& items, Checkpoint& checkpoint)
      : state_(state), items_(items), checkpoint_(checkpoint) {}

  llvm::Error Run() {
    inventory().format = "dcp";
    inventory().cuts = BoxesOfTensors();
    training().ranks.emplace_back();
    auto roles = FindRoles(state_.entries, state_.has_paths);
    if (!roles) return AddContext(roles.takeError(), fmt::format("`{}`", state_.name));
    roles_ = *std::move(roles);
    UCP_RETURN_IF_ERROR(CheckHasModel());
    for (const ModelEntry& tensor : roles_.tensors) entry_of_name_.emplace(tensor.name, tensor.entry);
    UCP_RETURN_IF_ERROR(ReadValues());
    SortStates();
    TakeOptimizer();
    AddTensors();
    TakeOthers();
    TakeMoreEntries();
    if (!roles_.has_optimizer) {
      training().absent_optimizer =
          fmt::format("`{}` holds no states of an optimizer{}", state_.name, UnknownOptimizer());
    }
    UCP_ASSIGN_OR_RETURN(std::optional<PartOfJob> part, PartByTensor());
    training().format_state = Keep({FindStyle(roles_, state_.has_two_folders, state_.other_file),
                                    TakeEngineEntries(training()), std::move(part), MachinesByTensor()});
    RemarkOnReserved();
    CountBoxes();
    return llvm::Error::success();
  }

 private:
  Inventory& inventory() { return checkpoint_.inventory; }
  TrainingState& training() { return checkpoint_.training; }

  llvm::Error CheckHasModel() const {
    if (!roles_.tensors.empty()) return llvm::Error::success();
    if (!state_.is_folder) return Fail(ErrorCode::kUsage, "{} holds no tensors of a model", state_.name);
    return Fail(
        ErrorCode::kUnsupported,
        "`{}` holds no tensors of a model; if it is of Accelerate, there is no `pytorch_model_fsdp_0` in it beside "
        "`optimizer_0`: name the folder that has both",
        state_.name);
  }

  // Optimizers are found by their names.
  std::string UnknownOptimizer() const {
    for (const OtherEntry& other : roles_.others) {
      const std::string_view key = other.entry->key;
      const std::string_view last = key.substr(key.rfind('.') + 1);
      if (!other.entry->is_tensor || (last != "exp_avg" && last != "exp_avg_sq" && last != "momentum_buffer")) continue;
      return fmt::format(
          ", but `{}`, which looks like one; one optimizer is read, below `optimizer`, `optim` or "
          "`optimizer_0`, with `state` and `param_groups`",
          key);
    }
    return "";
  }

  // The part by names of tensors. Only the model's tensors and states of their elements can be held in part.
  llvm::Expected<std::optional<PartOfJob>> PartByTensor() const {
    if (state_.part == nullptr) return std::nullopt;
    PartOfJob part{state_.part->number, {}};
    std::set<std::string> left;
    for (const auto& [key, held] : state_.part->tensors) left.insert(key);
    for (const ModelEntry& tensor : roles_.tensors) {
      const auto held = state_.part->tensors.find(tensor.entry->key);
      if (held == state_.part->tensors.end()) continue;
      part.tensors.emplace(tensor.name, held->second);
      left.erase(tensor.entry->key);
    }
    for (const StateEntry& state : roles_.states) {
      const auto held = state_.part->tensors.find(state.entry->key);
      const auto of_parameter = part.tensors.find(state.parameter);
      if (held == state_.part->tensors.end() || of_parameter == part.tensors.end()) continue;
      if (held->second == of_parameter->second) left.erase(state.entry->key);
    }
    if (left.empty()) return part;
    return Fail(
        ErrorCode::kUnsupported,
        "the ranks of machine {} hold a part of `{}`; only tensors of the model and states of their elements can "
        "be cut over machines",
        part.number, *left.begin());
  }

  // Those of a tensor; its states are cut as it is.
  std::optional<MachineFiles> MachinesByTensor() const {
    if (state_.machines == nullptr) return std::nullopt;
    MachineFiles machines{state_.machines->machines, {}, state_.machines->save};
    for (const ModelEntry& tensor : roles_.tensors) {
      const auto held = state_.machines->boxes.find(tensor.entry->key);
      if (held != state_.machines->boxes.end()) machines.boxes.emplace(tensor.name, held->second);
    }
    return machines;
  }

  // A state that is one number for each element of its parameter.
  bool IsOfElements(const StateEntry& state) const {
    return state.entry->is_tensor && state.state != kStep &&
           state.entry->shape == entry_of_name_.at(state.parameter)->shape;
  }

  // All but the tensors of the model and of its elements' states.
  llvm::Error ReadValues() {
    std::vector<const Entry*> wanted;
    for (const ModelEntry& extra : roles_.extras) wanted.push_back(extra.entry);
    for (const StateEntry& state : roles_.states) {
      if (!IsOfElements(state)) wanted.push_back(state.entry);
    }
    for (const GroupEntry& group : roles_.groups) wanted.push_back(group.entry);
    for (const auto* others : {&roles_.optimizer, &roles_.others}) {
      for (const OtherEntry& other : *others) wanted.push_back(other.entry);
    }
    for (const StateEntry& state : roles_.states) {
      if (state.state == kStep) RefuseChunks(*state.entry);
      RefuseName(state);
    }
    for (const GroupEntry& group : roles_.groups) RefuseChunks(*group.entry);
    const auto cut = std::ranges::partition(wanted, [](const Entry* entry) { return entry->chunks.size() == 1; });
    const std::vector<const Entry*> in_chunks(cut.begin(), cut.end());
    wanted.erase(cut.begin(), cut.end());
    UCP_ASSIGN_OR_RETURN(values_, items_.Keep(std::move(wanted)));
    for (const Entry* entry : in_chunks) values_.emplace(entry, KeepChunks(*entry));
    return llvm::Error::success();
  }

  // A tensor that the plan puts together.
  pytorch::ValuePtr KeepChunks(const Entry& entry) {
    LargeTensor tensor{fmt::format("{} in {}", entry.key, state_.origin), entry.dtype, entry.shape, {}, {}};
    TensorBoxes boxes;
    tensor.shards =
        ShardsOf(items_, tensor.name, TensorKind::kCarried, {{kWeightState, &entry}}, inventory().storage, boxes);
    tensor.boxes = std::move(boxes.boxes);
    return pytorch::MakeWholeTensor(AddTensor(training(), std::move(tensor)), entry.dtype, entry.shape);
  }

  // Masters and weights have these names among the states.
  void RefuseName(const StateEntry& state) {
    if ((state.state != kMasterState && state.state != kWeightState) || !roles_.unread_optimizer.empty()) return;
    roles_.unread_optimizer =
        fmt::format("the optimizer has a state `{}` of `{}`, a name that only the parameter itself can have here",
                    state.state, state.parameter);
  }

  // Steps and hyper-parameters are single values.
  void RefuseChunks(const Entry& entry) {
    if (entry.chunks.size() == 1 || !roles_.unread_optimizer.empty()) return;
    roles_.unread_optimizer =
        fmt::format("`{}` of the optimizer is cut into {} chunks, and steps and hyper-parameters are single values",
                    entry.key, entry.chunks.size());
  }

  // The states of each parameter that are one number for each element, and those that are not.
  void SortStates() {
    for (const StateEntry& state : roles_.states) {
      if (state.state == kStep) continue;
      const bool is_none = !state.entry->is_tensor && values_.at(state.entry)->is_none();
      if (is_none) continue;  // An optimizer's state that is not there yet.
      trained_.insert(state.parameter);
      if (IsOfElements(state)) {
        states_[state.parameter].push_back({state.state, state.entry});
      } else {
        loose_.push_back(&state);
      }
    }
  }

  void TakeOptimizer() {
    if (!roles_.has_optimizer) return;
    std::string unread = roles_.unread_optimizer;
    const auto is_of_parameter = [](const GroupEntry& entry) { return !entry.parameter.empty(); };
    if (std::ranges::any_of(roles_.groups, is_of_parameter)) training().order_doubt = PutInOrder(roles_.tensors);
    Optimizer optimizer;
    if (unread.empty()) optimizer = ReadOptimizer(roles_, values_, trained_);
    if (unread.empty()) unread = optimizer.unread;
    if (unread.empty()) unread = MissingState(optimizer.groups);
    if (!unread.empty()) {
      training().absent_optimizer = fmt::format("`{}`: {}", state_.name, unread);
      training().has_unread_optimizer = true;
      inventory().remarks.push_back(unread + ". Its weights are read alone");
      return;
    }
    training().groups = std::move(optimizer.groups);
    training().groups_origin = {state_.origin, "param_groups"};
    training().optimizer_origin = {state_.origin, "optimizer"};
    std::set<std::string> grouped;
    for (const OptimizerGroup& group : training().groups) {
      for (const std::string& name : group.parameters) grouped.insert(name);
    }
    trained_ = std::move(grouped);
    if (optimizer.stateless.empty()) return;
    inventory().remarks.push_back(fmt::format(
        "the optimizer lists {} parameters (first `{}`) and has no state of them, as of those that never had a "
        "gradient; they are taken as frozen",
        optimizer.stateless.size(), optimizer.stateless.front()));
  }

  // A parameter that has fewer states than another of its group, as a sentence; empty if there is none. Of parameters
  // with states that are not one number for each element, nobody knows which ones they need.
  std::string MissingState(const std::vector<OptimizerGroup>& groups) const {
    std::map<std::string_view, std::set<std::string_view>> names;
    for (const auto& [parameter, states] : states_) {
      for (const StateOfTensor& state : states) names[parameter].insert(state.state);
    }
    for (const StateEntry* state : loose_) names.erase(state->parameter);
    for (const OptimizerGroup& group : groups) {
      std::string_view most;
      for (const std::string& parameter : group.parameters) {
        if (names.contains(parameter) && (most.empty() || names[parameter].size() > names[most].size()))
          most = parameter;
      }
      for (const std::string& parameter : group.parameters) {
        if (!names.contains(parameter)) continue;
        const auto& own = names[parameter];
        if (own.size() == names[most].size() || !std::ranges::includes(names[most], own)) continue;
        const auto lacks = std::ranges::find_if(names[most], [&](auto state) { return !own.contains(state); });
        return fmt::format("the optimizer has `{}` of `{}` and not of `{}`, which is in the same group", *lacks, most,
                           parameter);
      }
    }
    return "";
  }

  void AddTensors() {
    std::map<std::string, std::size_t> first_shard;
    for (const ModelEntry& tensor : roles_.tensors) {
      const bool is_trained = training().absent_optimizer.empty() && trained_.contains(tensor.name);
      std::vector<StateOfTensor> states;
      if (is_trained) states = states_[tensor.name];
      states.push_back({is_trained ? kMasterState : kWeightState, tensor.entry});
      std::ranges::sort(states, {}, &StateOfTensor::state);
      first_shard.emplace(tensor.name, inventory().storage.shards.size());
      for (Shard& shard :
           ShardsOf(items_, tensor.name, is_trained ? TensorKind::kParameter : KindOf(*tensor.entry), std::move(states),
                    inventory().storage, std::get<BoxesOfTensors>(inventory().cuts)[tensor.name])) {
        inventory().storage.shards.push_back(std::move(shard));
      }
    }
    if (!training().absent_optimizer.empty()) return;
    for (const StateEntry* state : loose_) {
      training().loose_states.push_back(LooseStateOf(*state, entry_of_name_.at(state->parameter)->shape,
                                                     first_shard.at(state->parameter), values_.at(state->entry)));
    }
  }

  // Nothing tells a frozen parameter from a buffer but that parameters have gradients, which numbers of a float alone
  // have.
  static TensorKind KindOf(const Entry& entry) {
    switch (entry.dtype) {
      case DType::kBool:
      case DType::kUInt8:
      case DType::kInt8:
      case DType::kInt16:
      case DType::kInt32:
      case DType::kInt64:
      case DType::kUInt16:
      case DType::kUInt32:
      case DType::kUInt64:
        return TensorKind::kBuffer;
      default:
        return TensorKind::kFrozen;
    }
  }

  void TakeOthers() {
    training().optimizer = Kept(roles_.optimizer);
    RankState& rank = training().ranks.front();
    rank.client = Kept(roles_.others);
    rank.client_origin = {state_.origin, ""};
    rank.module_origin = {state_.origin, "model"};
    for (const ModelEntry& extra : roles_.extras) {
      rank.module_extras.push_back({pytorch::MakeText(extra.name), values_.at(extra.entry)});
    }
  }

  std::vector<pytorch::Entry> Kept(const std::vector<OtherEntry>& others) const {
    std::vector<Leaf> leaves;
    for (const OtherEntry& other : others) leaves.push_back({other.path, values_.at(other.entry)});
    return Nest(std::move(leaves));
  }

  void TakeMoreEntries() {
    std::vector<pytorch::Entry>& client = training().ranks.front().client;
    for (const pytorch::Entry& entry : state_.more_entries) {
      const auto key = pytorch::AsText(*entry.key);
      std::erase_if(client, [&](const pytorch::Entry& other) { return key && pytorch::AsText(*other.key) == key; });
      client.push_back(entry);
    }
  }

  void RemarkOnReserved() {
    const std::vector<std::string> dropped = DropReserved(training());
    if (dropped.empty()) return;
    inventory().remarks.push_back(
        fmt::format("the entries `{}` have names that DeepSpeed's files use for their own; they are not carried over",
                    fmt::join(dropped, "`, `")));
  }

  void CountBoxes() {
    std::int64_t most = 1;
    for (const auto& [name, tensor] : *inventory().boxes()) most = std::max(most, std::ssize(tensor.boxes));
    for (const LargeTensor& tensor : training().large_tensors) most = std::max(most, std::ssize(tensor.boxes));
    inventory().mesh.axes = {{kBoxAxis, most}};
  }

  const StateDict& state_;
  StoredItems& items_;
  Checkpoint& checkpoint_;
  Roles roles_;
  ValueOfEntry values_;
  std::map<std::string, const Entry*> entry_of_name_;         // Of the model's tensors.
  std::map<std::string, std::vector<StateOfTensor>> states_;  // By parameter.
  std::vector<const StateEntry*> loose_;
  std::set<std::string> trained_;  // Parameters with states; later all that are in groups.
};

}  // namespace

llvm::Error DescribeEntries(const StateDict& state, StoredItems& items, Checkpoint& checkpoint) {
  return Description(state, items, checkpoint).Run();
}

}  // namespace ucp::dcp
