// The model-states files say which parameters are trained, in which groups, and hold what is not; then every folder
// below `zero` becomes a whole tensor; and both give the training state back.
#include "compiler/formats/deepspeed/universal/read.h"

#include <unordered_map>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/model_agreement.h"
#include "compiler/formats/deepspeed/common/model_states.h"
#include "compiler/formats/deepspeed/common/pipeline_layers.h"
#include "compiler/formats/deepspeed/universal/expert_files.h"
#include "compiler/formats/deepspeed/universal/model_files.h"
#include "compiler/formats/deepspeed/universal/module_tensors.h"
#include "compiler/formats/deepspeed/universal/optimizer_state_file.h"
#include "compiler/formats/deepspeed/universal/parameter_folder.h"
#include "compiler/formats/identity.h"
#include "compiler/formats/source_archives.h"
#include "compiler/support/error.h"

namespace ucp::universal {
namespace {

using pytorch::ValuePtr;

std::string TagOf(const std::string& folder) {
  constexpr std::string_view kSuffix = "_universal";
  std::string tag = NameOfFolder(folder);
  if (tag.size() > kSuffix.size() && tag.ends_with(kSuffix)) tag.resize(tag.size() - kSuffix.size());
  return tag;
}

class Description {
 public:
  Description(ReadableFileSystem& files, const std::string& folder, const RankPreference& preference)
      : files_(files), folder_(folder), archives_(files, folder, inventory().storage, training()) {
    inventory().format = "universal";
    inventory().cuts = WholeTensors{};
    inventory().root = folder_;
    inventory().preference = preference;
  }

  llvm::Expected<Checkpoint> Run() {
    training().tag = TagOf(folder_);
    UCP_RETURN_IF_ERROR(ReadModelStates());
    UCP_RETURN_IF_ERROR(ReadOptimizerState());
    UCP_RETURN_IF_ERROR(ReadParameters());
    UCP_RETURN_IF_ERROR(CheckGroups());
    UCP_RETURN_IF_ERROR(AddModuleTensors(
        archives_, states_, [&](const std::string& name) { return group_of_.contains(name); }, inventory()));
    UCP_RETURN_IF_ERROR(CheckExpertsOfLayers());
    UCP_RETURN_IF_ERROR(FillTrainingState());
    return std::move(checkpoint_);
  }

 private:
  Inventory& inventory() { return checkpoint_.inventory; }
  TrainingState& training() { return checkpoint_.training; }

  llvm::Error ReadModelStates() {
    UCP_ASSIGN_OR_RETURN(states_, ReadModelFiles(files_, folder_, archives_));
    UCP_ASSIGN_OR_RETURN(believed_, JoinModelStates(inventory(), states_));
    for (const ModelStates& states : states_) {
      for (const auto& group : states.param_shapes) {
        for (const NamedShape& shape : group) shapes_.emplace(shape.name, shape.shape);
      }
    }
    return llvm::Error::success();
  }

  llvm::Error ReadOptimizerState() {
    UCP_ASSIGN_OR_RETURN(OptimizerStateFile file, ReadOptimizerStateFile(archives_));
    training().optimizer = std::move(file.carried);
    training().optimizer_origin = {"zero/optimizer_state.pt", ""};
    training().groups_origin = {"zero/optimizer_state.pt", "param_groups"};
    common_step_ = file.step;
    for (OptimizerStateFile::Group& group : file.groups) AddGroup(group);
    return llvm::Error::success();
  }

  void AddGroup(OptimizerStateFile::Group& read) {
    const std::size_t index = training().groups.size();
    OptimizerGroup group;
    group.hyper_parameters = std::move(read.hyper_parameters);
    for (const ModelStates& states : states_) {
      for (std::int64_t place : read.places) {
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
      if (parameter.is_fused) fused_experts_.insert(parameter.name);
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

  // A fused tensor has as many experts as AutoEP's metadata counts.
  llvm::Error CheckExpertsOfLayers() const {
    for (const ParameterFolder& parameter : parameters_) {
      for (const AutoEpLayer& layer : states_.front().autoep_layers) {
        if (!layer.Holds(parameter.name) || parameter.shape.empty() || parameter.shape.front() == layer.experts)
          continue;
        return Fail(ErrorCode::kBadData, "`{}`: `{}` has {} experts, and `{}` has {} by `ds_autoep_layers` in `{}`",
                    folder_, parameter.name, parameter.shape.front(), layer.prefix, layer.experts,
                    states_.front().path);
      }
    }
    return llvm::Error::success();
  }

  llvm::Error FillTrainingState() {
    training().engine = states_[believed_].engine;
    training().counting_rank = believed_;
    training().engine_origin = {states_[believed_].path, ""};
    const std::string& path = states_.front().path;
    deepspeed::FamilyState& state = deepspeed::EditState(training());
    state.fused_experts = std::move(fused_experts_);
    UCP_ASSIGN_OR_RETURN(state.pipeline, TakePipelineEntry(states_.front().client, path));
    if (!state.pipeline) state.pipeline = LayersFromNames(states_);
    UCP_ASSIGN_OR_RETURN(state.expert_layers, TakeExpertLayersEntry(states_.front().client, path));
    if (state.expert_layers.empty()) state.expert_layers = LayersInOrder(states_.front().autoep_layers);
    state.excludes_frozen = ExcludesFrozen(states_.front());
    training().aliases = states_.front().shared_params;
    inventory().aliases = training().aliases;
    for (ModelStates& states : states_) {
      training().ranks.push_back(
          {std::move(states.client), std::move(states.module.extras), {states.path, ""}, {states.path, "module"}});
    }
    return llvm::Error::success();
  }

  ReadableFileSystem& files_;
  const std::string folder_;
  Checkpoint checkpoint_;
  SourceArchives archives_;
  std::vector<ModelStates> states_;  // By model-parallel rank.
  std::size_t believed_ = 0;         // The index of the one that counts where ranks contradict each other.
  ShapeOfName shapes_;
  std::set<std::string> fused_experts_;
  std::unordered_map<std::string, std::size_t> group_of_;
  std::vector<ParameterFolder> parameters_;
  std::unordered_map<std::string, std::size_t> parameter_of_;  // A folder of experts is of several tensors.
  ValuePtr common_step_;
};

}  // namespace

llvm::Expected<Checkpoint> DescribeFolder(ReadableFileSystem& files, const std::string& folder,
                                          const RankPreference& preference) {
  return Description(files, folder, preference).Run();
}

}  // namespace ucp::universal
