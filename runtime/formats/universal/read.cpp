// The model-states files say which parameters are trained, in which groups, and hold what is not; then every folder
// below `zero` becomes a whole tensor; and both give the training state back.
#include "runtime/formats/universal/read.h"

#include <re2/re2.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>

#include "compiler/support/error.h"
#include "runtime/formats/model_agreement.h"
#include "runtime/formats/model_states.h"
#include "runtime/formats/pipeline_layers.h"
#include "runtime/formats/pytorch/value_access.h"
#include "runtime/formats/source_archives.h"
#include "runtime/formats/universal/expert_files.h"
#include "runtime/formats/universal/module_tensors.h"
#include "runtime/formats/universal/parameter_folder.h"

namespace ucp::universal {
namespace {

using pytorch::Find;
using pytorch::ValuePtr;

std::string TagOf(const std::string& folder) {
  constexpr std::string_view kSuffix = "_universal";
  std::string tag = std::filesystem::path(folder).lexically_normal().filename().string();
  if (tag.size() > kSuffix.size() && tag.ends_with(kSuffix)) tag.resize(tag.size() - kSuffix.size());
  return tag;
}

class Description {
 public:
  Description(FileSystem& files, const std::string& folder, const RankPreference& preference)
      : files_(files), folder_(folder), archives_(files, folder, inventory().storage, training()) {
    inventory().format = "universal";
    inventory().is_whole = true;
    inventory().root = folder_;
    inventory().preference = preference;
  }

  llvm::Expected<Checkpoint> Run() {
    training().tag = TagOf(folder_);
    UCP_RETURN_IF_ERROR(ReadModelFiles());
    UCP_RETURN_IF_ERROR(ReadOptimizerState());
    UCP_RETURN_IF_ERROR(ReadParameters());
    UCP_RETURN_IF_ERROR(CheckGroups());
    UCP_RETURN_IF_ERROR(AddModuleTensors(
        archives_, states_, [&](const std::string& name) { return group_of_.contains(name); }, inventory()));
    FillTrainingState();
    return std::move(checkpoint_);
  }

 private:
  Inventory& inventory() { return checkpoint_.inventory; }
  TrainingState& training() { return checkpoint_.training; }

  // By rank; folders that DeepSpeed made from stage 3 have only the second kind.
  llvm::Expected<std::map<std::int64_t, std::string>> ListModelFiles() {
    static const RE2 usual(R"(mp_rank_(\d{1,9})_model_states\.pt)");
    static const RE2 stage3(R"(zero_pp_rank_0_mp_rank_(\d{1,9})_model_states\.pt)");
    UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files_.List(folder_));
    for (const RE2* pattern : {&usual, &stage3}) {
      std::map<std::int64_t, std::string> names;
      for (const DirectoryEntry& entry : entries) {
        std::int64_t rank = 0;
        if (!entry.is_directory && RE2::FullMatch(entry.name, *pattern, &rank)) names.emplace(rank, entry.name);
      }
      if (!names.empty()) return names;
    }
    return Fail(ErrorCode::kBadData,
                "`{}`: `mp_rank_00_model_states.pt` is missing; was the folder written to its end?", folder_);
  }

  llvm::Error ReadModelFiles() {
    UCP_ASSIGN_OR_RETURN(auto names, ListModelFiles());
    for (const auto& [rank, name] : names) {
      UCP_ASSIGN_OR_RETURN(ModelStates states, ReadModelStates(archives_, name, ModelStatesOf::kUniversalFolder));
      states.rank.at["mp"] = rank;
      states_.push_back(std::move(states));
    }
    const auto found = static_cast<std::int64_t>(states_.size());
    const std::int64_t expected = states_.front().mp_world_size.value_or(found);
    if (expected != found || names.rbegin()->first != found - 1) {
      return Fail(ErrorCode::kBadData,
                  "`{}`: `mp_world_size` in `{}` is {}, and there are {} such files, the last one `{}`", folder_,
                  states_.front().path, expected, found, names.rbegin()->second);
    }
    UCP_RETURN_IF_ERROR(CheckListedTensors(names.begin()->second));
    UCP_ASSIGN_OR_RETURN(believed_, JoinModelStates(inventory(), states_));
    for (const ModelStates& states : states_) {
      for (const auto& group : states.param_shapes) {
        for (const NamedShape& shape : group) shapes_.emplace(shape.name, shape.shape);
      }
    }
    return llvm::Error::success();
  }

  // We write each rank's file twice, and the form for stage 3 lists the tensors that only the other one holds.
  // DeepSpeed's own files of stage 3 hold what they list, so that they need no other.
  llvm::Error CheckListedTensors(const std::string& first_file) const {
    if (!first_file.starts_with("zero_pp_rank_")) return llvm::Error::success();
    std::set<std::string_view> held;
    for (const ModelStates& states : states_) {
      for (const ModuleEntries* entries : {&states.module, &states.frozen_fragments}) {
        for (const auto& [name, place] : entries->tensors) held.insert(name);
      }
    }
    for (const ModelStates& states : states_) {
      std::set<std::string> listed = states.buffer_names;
      for (const auto& [name, shape] : states.frozen_shapes) listed.insert(name);
      for (const std::string& name : listed) {
        if (held.contains(name)) continue;
        return Fail(ErrorCode::kBadData,
                    "`{}`: `mp_rank_00_model_states.pt` is missing, and `{}` lists `{}` without holding it; was the "
                    "folder written to its end?",
                    folder_, states.path, name);
      }
    }
    return llvm::Error::success();
  }

  llvm::Error ReadOptimizerState() {
    UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives_.Open("zero/optimizer_state.pt"));
    ValuePtr inner = Find(archive.root(), "optimizer_state_dict");
    ValuePtr groups = Find(archive.root(), "param_groups");
    if (!groups && inner) groups = Find(*inner, "param_groups");
    if (!groups || pytorch::Items(*groups) == nullptr) {
      return Fail(ErrorCode::kBadData, "`{}` has no list `param_groups`", archive.readable->path());
    }
    UCP_RETURN_IF_ERROR(CarryEntries(archive));
    UCP_RETURN_IF_ERROR(FindStageThreeStep(archive, inner));
    UCP_ASSIGN_OR_RETURN(groups, archives_.Keep(archive, groups, "`param_groups`"));
    for (const ValuePtr& group : *pytorch::Items(*groups)) {
      if (pytorch::Entries(*group) == nullptr) {
        return Fail(ErrorCode::kBadData, "`{}`: an entry of `param_groups` is not a dict", archive.readable->path());
      }
      AddGroup(*group, training().groups.size());
    }
    return llvm::Error::success();
  }

  // What a partition's file says about its partition alone is not carried on.
  llvm::Error CarryEntries(const SourceArchive& archive) {
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
    UCP_ASSIGN_OR_RETURN(ValuePtr kept, archives_.Keep(archive, pytorch::MakeDict(std::move(entries)), "its entries"));
    training().optimizer = *pytorch::Entries(*kept);
    return llvm::Error::success();
  }

  // Folders that DeepSpeed made from stage 3 have no step.pt.
  llvm::Error FindStageThreeStep(const SourceArchive& archive, const ValuePtr& inner) {
    ValuePtr states = inner ? Find(*inner, "state") : nullptr;
    ValuePtr first = states ? Find(*states, std::int64_t{0}) : nullptr;
    ValuePtr step = first ? Find(*first, "step") : nullptr;
    if (!step) return llvm::Error::success();
    UCP_ASSIGN_OR_RETURN(common_step_, archives_.Keep(archive, step, "the step"));
    return llvm::Error::success();
  }

  // `params` are places in the lists of shapes: one for each group, or (stage 3) one for each sub-group.
  void AddGroup(const pytorch::Value& value, std::size_t index) {
    OptimizerGroup group;
    std::vector<pytorch::Entry> hyper_parameters;
    std::vector<std::int64_t> places = {static_cast<std::int64_t>(index)};
    for (const pytorch::Entry& entry : *pytorch::Entries(value)) {
      if (pytorch::AsText(*entry.key) != "params") {
        hyper_parameters.push_back(entry);
      } else if (auto numbers = pytorch::AsIntegers(*entry.value)) {
        places = std::move(*numbers);
      }
    }
    group.hyper_parameters = pytorch::MakeDict(std::move(hyper_parameters));
    for (const ModelStates& states : states_) {
      for (std::int64_t place : places) {
        if (place < 0 || static_cast<std::size_t>(place) >= states.param_shapes.size()) continue;
        for (const NamedShape& shape : states.param_shapes[static_cast<std::size_t>(place)]) {
          auto [entry, added] = group_of_.emplace(shape.name, index);
          if (added) group.parameters.push_back(shape.name);
        }
      }
    }
    training().groups.push_back(std::move(group));
  }

  llvm::Error ReadParameters() {
    UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files_.List(JoinPath(folder_, "zero")));
    std::vector<std::string> unlisted;
    for (const DirectoryEntry& entry : entries) {
      if (!entry.is_directory) continue;
      auto shape = shapes_.find(entry.name);
      // Newer DeepSpeed also writes frozen tensors and buffers here, as float32; the module has them as they are.
      if (!shapes_.empty() && shape == shapes_.end()) {
        unlisted.push_back(entry.name);
        continue;
      }
      UCP_ASSIGN_OR_RETURN(ParameterFolder parameter,
                           ReadParameterFolder(files_, folder_, archives_, entry.name,
                                               shape == shapes_.end() ? nullptr : &shape->second));
      if (parameter.is_fused) training().fused_experts.insert(parameter.name);
      parameters_.push_back(std::move(parameter));
      UCP_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           NamesInModel(folder_, parameters_.back().name, parameters_.back().shape, shapes_));
      for (std::size_t i = 0; i < names.size(); ++i) {
        parameter_of_.emplace(names[i], parameters_.size() - 1);
        AddShards(parameters_.back(), names, i);
      }
    }
    if (!unlisted.empty()) {
      inventory().remarks.push_back(fmt::format(
          "{} folders below `zero` (first `{}`) are not trained parameters by `param_shapes`, and are not read",
          unlisted.size(), unlisted.front()));
    }
    return llvm::Error::success();
  }

  // Of the tensor `names[place]`, which are one after the other in the files.
  void AddShards(const ParameterFolder& parameter, const std::vector<std::string>& names, std::size_t place) {
    std::vector<std::int64_t> shape = parameter.shape;
    if (names.size() > 1) shape.front() /= std::ssize(names);
    std::int64_t elements = 1;
    for (std::int64_t size : shape) elements *= size;
    std::map<std::vector<std::int64_t>, BufferSet> sets;  // Usually one, of states that are all row-major.
    for (const auto& [state, stored] : parameter.states) {
      Buffer buffer;
      buffer.dtype = stored.dtype;
      buffer.part_elements = stored.record_elements - stored.offset;
      buffer.parts.push_back({stored.record, stored.offset, buffer.part_elements});
      sets[stored.strides].push_back({state, inventory().storage.Add(std::move(buffer))});
    }
    for (auto& [strides, set] : sets) {
      Shard shard;
      shard.tensor = names[place];
      shard.shape = shape;
      shard.strides = strides;
      if (place > 0) shard.coordinate.at["ep"] = static_cast<std::int64_t>(place);
      shard.base =
          static_cast<std::int64_t>(place) * (shape.empty() || strides.empty() ? elements : strides[0] * shape[0]);
      shard.states = inventory().storage.Add(std::move(set));
      inventory().storage.shards.push_back(std::move(shard));
    }
  }

  // Every listed parameter is there, and those of one group have the same states and the same step.
  llvm::Error CheckGroups() {
    for (const ParameterFolder& parameter : parameters_) UCP_RETURN_IF_ERROR(FindGroup(parameter.name));
    for (OptimizerGroup& group : training().groups) {
      const ParameterFolder* first = nullptr;
      for (const std::string& name : group.parameters) {
        auto found = parameter_of_.find(name);
        if (found == parameter_of_.end()) {
          return Fail(ErrorCode::kBadData, "`{}/zero/{}` is missing, and `param_shapes` lists this parameter", folder_,
                      name);
        }
        const ParameterFolder& parameter = parameters_[found->second];
        if (first == nullptr) first = &parameter;
        UCP_RETURN_IF_ERROR(CompareParameters(*first, parameter));
      }
      group.step = first != nullptr && first->step ? first->step : common_step_;
    }
    return llvm::Error::success();
  }

  llvm::Error FindGroup(const std::string& name) {
    if (group_of_.contains(name)) return llvm::Error::success();
    if (training().groups.size() != 1) {
      return Fail(ErrorCode::kUnsupported, "`{}`: nothing says which of the optimizer's {} groups `{}` belongs to",
                  folder_, training().groups.size(), name);
    }
    training().groups.front().parameters.push_back(name);
    group_of_.emplace(name, 0);
    return llvm::Error::success();
  }

  llvm::Error CompareParameters(const ParameterFolder& first, const ParameterFolder& other) const {
    for (const auto& [a, b] : {std::pair(&first, &other), std::pair(&other, &first)}) {
      for (const auto& [state, place] : a->states) {
        if (b->states.contains(state)) continue;
        return Fail(ErrorCode::kBadData, "`{}/{}/{}.pt` is missing, and `{}` of the same group has one", folder_,
                    b->path, state, a->path);
      }
    }
    llvm::Error error =
        CheckSameStep(checkpoint_.training, first.step, first.path + "/step.pt", other.step, other.path + "/step.pt");
    return error ? AddContext(std::move(error), fmt::format("`{}`", folder_)) : llvm::Error::success();
  }

  void FillTrainingState() {
    training().engine = states_[believed_].engine;
    training().counting_rank = believed_;
    training().pipeline = TakePipelineEntry(states_.front().client);
    if (!training().pipeline) training().pipeline = LayersFromNames(states_);
    training().expert_layers = TakeExpertLayersEntry(states_.front().client);
    training().aliases = states_.front().shared_params;
    training().excludes_frozen = ExcludesFrozen(states_.front());
    inventory().aliases = training().aliases;
    for (ModelStates& states : states_) {
      training().ranks.push_back({std::move(states.client), std::move(states.module.extras)});
    }
  }

  FileSystem& files_;
  const std::string folder_;
  Checkpoint checkpoint_;
  SourceArchives archives_;
  std::vector<ModelStates> states_;  // By model-parallel rank.
  std::size_t believed_ = 0;         // Which of them counts where ranks contradict each other.
  ShapeOfName shapes_;
  std::unordered_map<std::string, std::size_t> group_of_;
  std::vector<ParameterFolder> parameters_;
  std::unordered_map<std::string, std::size_t> parameter_of_;  // A folder of experts is of several tensors.
  ValuePtr common_step_;
};

}  // namespace

llvm::Expected<Checkpoint> DescribeFolder(FileSystem& files, const std::string& folder,
                                          const RankPreference& preference) {
  return Description(files, folder, preference).Run();
}

}  // namespace ucp::universal
