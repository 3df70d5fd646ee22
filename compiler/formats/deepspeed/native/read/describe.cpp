// The story of a description: look at the names of the files and refuse what is not served; read what the model-states
// files say about the cut; add what the model computes with; add, rank after rank, the partitions of the optimizer;
// and put together what is needed to resume.
#include "compiler/formats/deepspeed/native/read/describe.h"

#include <algorithm>
#include <set>

#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/model_agreement.h"
#include "compiler/formats/deepspeed/common/pipeline_names.h"
#include "compiler/formats/deepspeed/native/read/embedded_metadata.h"
#include "compiler/formats/deepspeed/native/read/module_tensors.h"
#include "compiler/formats/deepspeed/native/read/optimizer/old_param_shapes.h"
#include "compiler/formats/deepspeed/native/read/optimizer/optimizer_sources.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero0_experts.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero0_names.h"
#include "compiler/formats/deepspeed/native/read/pipeline_addresses.h"
#include "compiler/formats/deepspeed/native/read/pipeline_stages.h"
#include "compiler/formats/deepspeed/native/read/ranks/degrees.h"
#include "compiler/formats/deepspeed/native/read/ranks/experts.h"
#include "compiler/formats/deepspeed/native/read/ranks/fused_experts.h"
#include "compiler/formats/deepspeed/native/read/tags_beside.h"
#include "compiler/formats/deepspeed/native/read/zero3_module.h"
#include "compiler/formats/identity.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

class Description {
 public:
  Description(ReadableFileSystem& files, const std::string& folder, const RankPreference& preference, unsigned threads)
      : files_(files),
        folder_(folder),
        threads_(threads),
        archives_(files, folder, inventory().storage, checkpoint_.training) {
    inventory().format = "deepspeed";
    inventory().root = folder_;
    inventory().preference = preference;
  }

  llvm::Expected<Checkpoint> Run() {
    checkpoint_.training.tag = NameOfFolder(folder_);
    UCP_RETURN_IF_ERROR(ReadModelFiles());
    UCP_RETURN_IF_ERROR(FindOptimizer());
    UCP_RETURN_IF_ERROR(CheckStagesHaveFusedExperts(folder_, degrees_, states_));
    const bool is_addressed = has_copies_ && states_.front().param_shapes.empty();
    if (is_addressed) {
      UCP_RETURN_IF_ERROR(ListAddressedParameters(files_, names_, folder_, partitions_, states_));
    }
    UCP_RETURN_IF_ERROR(
        ReadLayerFiles(archives_, names_, folder_, degrees_, states_, inventory().remarks, state_.pipeline));
    if (is_addressed) UCP_RETURN_IF_ERROR(TakeShapesOfModules(folder_, degrees_, states_));
    UCP_RETURN_IF_ERROR(NameWholeParameters());
    UCP_RETURN_IF_ERROR(CheckStagesFollow(folder_, degrees_.tp, states_));
    TakeListedNames(states_);
    UCP_RETURN_IF_ERROR(CheckModuleTensors(names_, folder_, degrees_, states_));
    second_names_ = TakeOutSecondNames(states_);
    UCP_RETURN_IF_ERROR(ReadExperts());
    const OptimizerContext context{archives_,      names_,      folder_, degrees_,    experts_,
                                   fused_experts_, partitions_, states_, checkpoint_, state_};
    if (!names_.partitioned_model_states.empty()) UCP_RETURN_IF_ERROR(AddPartitionedModule(context, states_));
    if (LacksOptimizer()) ShareTiedModules(degrees_, states_);
    UCP_RETURN_IF_ERROR(AddModuleShards(archives_, degrees_, states_, inventory()));
    experts_.AddShards(archives_, inventory().storage);
    fused_experts_.AddTo(inventory(), state_);
    UCP_ASSIGN_OR_RETURN(rank_groups_, AddOptimizer(context));
    NoteLayers();
    RemarkOnUnknownFiles();
    RemarkOnFrozen();
    RemarkOnZenFlow();
    ReadEmbeddedMetadata(states_.front(), inventory());
    UCP_RETURN_IF_ERROR(FillTrainingState());
    return std::move(checkpoint_);
  }

 private:
  Inventory& inventory() { return checkpoint_.inventory; }

  llvm::Error ReadModelFiles() {
    UCP_ASSIGN_OR_RETURN(names_, ListCheckpointFiles(files_, folder_));
    UCP_RETURN_IF_ERROR(CheckServed(names_, folder_));
    UCP_RETURN_IF_ERROR(FindModelFiles(names_, folder_));
    std::vector<std::string> in_order;
    for (const auto& [mp, name] : names_.model_states) in_order.push_back(name);
    for (const auto& [place, name] : names_.layers) in_order.push_back(name);
    for (const auto& [place, name] : names_.optimizer_states) in_order.push_back(name);
    if (!in_order.empty()) in_order.erase(in_order.begin());  // This thread is about to read it itself.
    if (threads_ > 1) archives_.ReadAhead(in_order, threads_ - 1);
    for (const auto& [mp, name] : names_.model_states) UCP_RETURN_IF_ERROR(ReadModelFile(name));
    UCP_ASSIGN_OR_RETURN(degrees_, FindDegrees(names_, folder_, states_, inventory().remarks));
    UCP_RETURN_IF_ERROR(CheckLayerFiles(names_, folder_, degrees_.tp));
    return llvm::Error::success();
  }

  // Where the optimizer is not there, or not whole, weights can still be read: not so at stage 3, which has them there.
  llvm::Error FindOptimizer() {
    UCP_ASSIGN_OR_RETURN(Partitions found, CountPartitions(names_, folder_, degrees_.mp()));
    partitions_ = found.count;
    std::string& absent = checkpoint_.training.absent_optimizer;
    absent = std::move(found.absent);
    const bool is_whole = names_.optimizer_states.empty() && !HasWholeExperts();
    if (is_whole && whole_optimizers_.size() != states_.size()) {
      absent = fmt::format(
          "`{}` holds no `*_optim_states.pt`, and `{}` no whole optimizer: saving it was interrupted, or it is not a "
          "checkpoint to resume from",
          folder_, path_without_optimizer_);
    } else if (is_whole && HasExperts()) {
      absent = fmt::format("`{}`: `{}` is missing, where the optimizer of the first experts is", folder_,
                           ExpertOptimizerName(0, 0));
    }
    if (!absent.empty()) {
      checkpoint_.training.has_unread_optimizer = true;
      inventory().remarks.push_back(fmt::format("{}. Its weights are read alone", absent));
      if (!names_.layers.empty() && states_.front().param_shapes.empty()) {
        inventory().remarks.emplace_back(
            "no list names the layers' tensors, so those of a tied module go by the number of its first layer");
      }
      names_.optimizer_states.clear();
      whole_optimizers_.clear();
      has_copies_ = false;
    }
    inventory().mesh.axes = {{"pp", degrees_.pp}, {"dp", partitions_}, {"tp", degrees_.tp}};
    for (std::size_t mp = 0; mp < states_.size(); ++mp) {
      states_[mp].rank = degrees_.RankOf(static_cast<std::int64_t>(mp));
      auto partitioned = names_.partitioned_model_states.lower_bound({static_cast<std::int64_t>(mp), 0});
      if (partitioned != names_.partitioned_model_states.end()) {
        states_[mp].rank.at["dp"] = partitioned->first.partition;
      }
    }
    UCP_ASSIGN_OR_RETURN(believed_, JoinModelStates(inventory(), states_));
    const bool lacks_shapes = std::ranges::any_of(states_, [](auto& rank) { return !rank.has_param_shapes; });
    if (!lacks_shapes || names_.optimizer_states.empty() || has_copies_) return llvm::Error::success();
    return ReadOldParamShapes(files_, names_, folder_, partitions_, states_, inventory().remarks);
  }

  bool LacksOptimizer() const { return !checkpoint_.training.absent_optimizer.empty(); }

  // Without ZeRO, the optimizer stands there; only BF16_Optimizer has files of its own as well.
  llvm::Error ReadModelFile(const std::string& name) {
    OptimizerVisitor visit = [this](const SourceArchive& archive, const pytorch::ValuePtr& value) -> llvm::Error {
      if (HasWholeExperts()) return llvm::Error::success();  // A copy of the first expert rank's.
      if (!names_.optimizer_states.empty()) return CheckIsCopy(archive, *value);
      if (IsOfPartition(*value)) return llvm::Error::success();
      UCP_ASSIGN_OR_RETURN(WholeOptimizer optimizer, ReadWholeOptimizer(archives_, archive, value));
      whole_optimizers_.push_back(std::move(optimizer));
      return llvm::Error::success();
    };
    UCP_ASSIGN_OR_RETURN(ModelStates states, ReadModelStates(archives_, name, ModelStatesOf::kNativeCheckpoint, visit));
    states_.push_back(std::move(states));
    if (whole_optimizers_.size() < states_.size() && path_without_optimizer_.empty()) path_without_optimizer_ = name;
    return llvm::Error::success();
  }

  static bool IsOfPartition(const pytorch::Value& optimizer) {
    return pytorch::Find(optimizer, "single_partition_of_fp32_groups") != nullptr;
  }

  // Rank 0 put the same into its model-states file and into its optimizer file.
  llvm::Error CheckIsCopy(const SourceArchive& archive, const pytorch::Value& optimizer) {
    has_copies_ = IsOfPartition(optimizer);
    if (has_copies_) return llvm::Error::success();
    return Fail(ErrorCode::kBadData,
                "`{}`: `{}` holds the whole optimizer of a run without ZeRO, and `{}` a part of "
                "another one; remove those that are stale",
                folder_, archive.path, names_.optimizer_states.begin()->second);
  }

  llvm::Error NameWholeParameters() {
    if (whole_optimizers_.empty()) return llvm::Error::success();
    const bool is_pipeline = std::none_of(states_.begin(), states_.end(), [](auto& rank) { return rank.has_module; });
    if (is_pipeline) UCP_RETURN_IF_ERROR(FindStagesOfLayers(whole_optimizers_, folder_, degrees_, states_));
    for (std::size_t mp = 0; mp < states_.size(); ++mp) {
      UCP_RETURN_IF_ERROR(NameParameters(archives_, whole_optimizers_[mp], folder_, states_[mp]));
    }
    DoubtOrder();
    return llvm::Error::success();
  }

  void DoubtOrder() {
    if (std::none_of(whole_optimizers_.begin(), whole_optimizers_.end(), HasUnknownShapes)) return;
    checkpoint_.training.order_doubt =
        "its optimizer has no states that would say which parameter is which, before its first step or because it "
        "keeps none";
  }

  bool HasExperts() const {
    return !names_.experts.empty() ||
           std::ranges::any_of(states_, [](const ModelStates& rank) { return !rank.autoep_layers.empty(); });
  }
  bool HasWholeExperts() const { return names_.optimizer_states.empty() && !names_.expert_optimizers.empty(); }

  // The two ways in which DeepSpeed spreads experts; a model has experts of one kind.
  llvm::Error ReadExperts() {
    UCP_ASSIGN_OR_RETURN(fused_experts_,
                         FusedExperts::Read(archives_, names_, folder_, degrees_, states_, partitions_));
    if (fused_experts_.any()) {
      const std::int64_t ep = fused_experts_.ep();
      inventory().mesh.axes.push_back(
          {"edp", std::max<std::int64_t>(1, partitions_ * fused_experts_.tensor_ranks() / ep)});
      inventory().mesh.axes.push_back({"ep", ep});
      if (HasWholeExperts()) {
        UCP_RETURN_IF_ERROR(ReadWholeExpertsOfRanks());
        fused_experts_.FindFrozen(states_);
      }
      NotePipeline();
      return llvm::Error::success();
    }
    UCP_ASSIGN_OR_RETURN(experts_, Experts::Read(archives_, names_, folder_, degrees_, states_, partitions_));
    if (!experts_.any()) return llvm::Error::success();
    inventory().remarks.insert(inventory().remarks.end(), experts_.remarks().begin(), experts_.remarks().end());
    if (HasWholeExperts()) {
      UCP_RETURN_IF_ERROR(ReadWholeExpertsOfRanks());
      UCP_RETURN_IF_ERROR(experts_.CheckListed(folder_, states_));
    } else if (!LacksOptimizer() && partitions_ * experts_.tensor_ranks() % experts_.ep() != 0) {
      return Fail(ErrorCode::kBadData,
                  "`{}`: the experts are spread over {} ranks, and there are files of {} partitions", folder_,
                  experts_.ep(), partitions_ * experts_.tensor_ranks());
    }
    const std::int64_t copies = partitions_ * experts_.tensor_ranks() / experts_.ep();
    inventory().mesh.axes.push_back({"edp", std::max<std::int64_t>(1, copies)});
    inventory().mesh.axes.push_back({"ep", experts_.ep()});
    state_.expert_layers = experts_.Layers();
    NotePipeline();
    return llvm::Error::success();
  }

  llvm::Error ReadWholeExpertsOfRanks() {
    UCP_ASSIGN_OR_RETURN(whole_experts_,
                         ReadWholeExperts(archives_, names_, folder_, experts_, fused_experts_, states_));
    return llvm::Error::success();
  }

  // Beside experts a pipeline has no layer files; its parameters' names tell.
  void NotePipeline() {
    const bool is_stage3 = !names_.partitioned_model_states.empty();  // No pipeline has stage 3.
    if (names_.layers.empty() && !is_stage3 && IsPipeline()) state_.pipeline = PipelineLayers{};
  }

  bool IsPipeline() const {
    return std::all_of(states_.begin(), states_.end(), [](const ModelStates& rank) {
      return std::all_of(rank.param_shapes.begin(), rank.param_shapes.end(), [](const auto& group) {
        return std::all_of(group.begin(), group.end(),
                           [](const NamedShape& shape) { return PlaceInPipeline(shape.name).has_value(); });
      });
    });
  }

  llvm::Expected<std::vector<RankGroups>> AddOptimizer(const OptimizerContext& context) {
    if (LacksOptimizer()) return std::vector<RankGroups>();
    if (HasWholeExperts()) return AddWholeExperts(context, whole_experts_);
    if (names_.optimizer_states.empty()) return AddWholeOptimizer(context, whole_optimizers_);
    return names_.partitioned_model_states.empty() ? AddFlatOptimizer(context) : AddPartitionedOptimizer(context);
  }

  // On which stages the layers are; and which there are, where no files are theirs, beside experts.
  void NoteLayers() {
    std::optional<PipelineLayers>& pipeline = state_.pipeline;
    if (!pipeline) return;
    pipeline->stage_count = degrees_.pp;
    for (const Shard& shard : inventory().storage.shards) {
      const std::string prefix = PrefixInPipeline(shard.tensor);
      if (prefix.empty()) continue;
      if (degrees_.pp > 1) pipeline->stages[prefix].insert(shard.coordinate.At("pp"));
      const std::int64_t layer = *PlaceInPipeline(shard.tensor);
      if (names_.layers.empty() && layer >= 0) pipeline->prefixes.emplace(layer, prefix);
    }
  }

  void RemarkOnUnknownFiles() {
    for (std::string& remark : RemarksOnTagsBeside(files_, folder_, names_)) {
      inventory().remarks.push_back(std::move(remark));
    }
    for (const std::string& name : names_.folders) {
      inventory().remarks.push_back(fmt::format("the folder `{}` inside the checkpoint is not a part of it", name));
    }
    if (!HasWholeExperts()) {
      for (const auto& [place, name] : names_.expert_optimizers) names_.unknown_files.push_back(name);
    }
    for (const std::string& name : names_.unknown_files) {
      inventory().remarks.push_back(fmt::format("`{}` is not a file of this format and is not read", name));
    }
    pytorch::ValuePtr recorded = FindEntry(states_.front().engine, "dp_world_size");
    auto number = recorded ? pytorch::AsInteger(*recorded) : std::nullopt;
    if (number && *number != partitions_ && !names_.optimizer_states.empty()) {
      inventory().remarks.push_back(
          fmt::format("`dp_world_size` is {}, and the optimizer is cut over {} partitions", *number, partitions_));
    }
  }

  void RemarkOnMissingStates() {
    const Storage& storage = inventory().storage;
    for (const Shard& shard : storage.shards) {
      for (const StateBuffer& held : storage.buffer_set(shard.states)) {
        if (held.state != kMasterState && held.state != kWeightState) return;
      }
    }
    for (const OptimizerGroup& group : checkpoint_.training.groups) {
      if (group.step) return;
    }
    inventory().remarks.emplace_back(
        "the optimizer has no states and counts no steps: it took none yet, or keeps none; masters are converted");
  }

  void RemarkOnFrozen() {
    const ModelStates& first = states_.front();
    state_.excludes_frozen = ExcludesFrozen(first) || !second_names_.empty();
    if (!state_.excludes_frozen) return;
    inventory().remarks.push_back(fmt::format(
        "`{}` was saved with exclude_frozen_parameters: frozen parameters, if the model has any, are in none of the "
        "files, nor are their names; take them from where the model began",
        first.path));
    for (const std::string& name : second_names_) {
      inventory().remarks.push_back(
          fmt::format("`{}` is also left out: it is a second name of `{}`, which was excluded", name,
                      first.shared_params.at(name)));
    }
  }

  // It steps a part of the weights ahead of the masters, and nothing of the difference is saved but these weights.
  void RemarkOnZenFlow() {
    pytorch::ValuePtr config = FindEntry(states_.front().engine, "ds_config");
    pytorch::ValuePtr zero = config ? pytorch::Find(*config, "zero_optimization") : nullptr;
    pytorch::ValuePtr settings = zero ? pytorch::Find(*zero, "zenflow") : nullptr;
    if (!settings || settings->is_none()) return;
    inventory().remarks.emplace_back(
        "the job trained with ZenFlow, whose weights are ahead of its masters; a job of another topology begins from "
        "the masters, and lacks the steps between");
  }

  llvm::Error FillTrainingState() {
    TrainingState& training = checkpoint_.training;
    EditState(training) = std::move(state_);
    if (!LacksOptimizer()) {
      UCP_RETURN_IF_ERROR(MergeOptimizers(inventory(), training, std::move(rank_groups_)));
      RemarkOnMissingStates();
    }
    training.aliases = inventory().aliases;
    training.engine = states_[believed_].engine;
    training.engine_origin = {states_[believed_].path, ""};
    training.counting_rank = believed_;
    for (ModelStates& states : states_) {
      const std::string path = states.client_path.empty() ? states.path : states.client_path;
      const ValueOrigin module =
          names_.layers.empty() ? ValueOrigin{path, "module"} : ValueOrigin{"layer_*-model_states.pt", ""};
      training.ranks.push_back({std::move(states.client), std::move(states.module.extras), {path, ""}, module});
    }
    return llvm::Error::success();
  }

  ReadableFileSystem& files_;
  const std::string folder_;
  const unsigned threads_;
  Checkpoint checkpoint_;
  FamilyState state_;  // For `checkpoint_`.
  SourceArchives archives_;
  CheckpointFiles names_;
  std::vector<ModelStates> states_;               // By model-parallel rank.
  std::string path_without_optimizer_;            // The first model-states file of which none was read.
  bool has_copies_ = false;                       // Of the first partition's optimizer, in model-states files.
  std::vector<WholeOptimizer> whole_optimizers_;  // By model-parallel rank; empty with ZeRO.
  std::vector<WholeExpertRank> whole_experts_;    // Instead, if there are experts.
  Degrees degrees_;
  Experts experts_;
  FusedExperts fused_experts_;
  std::int64_t partitions_ = 0;
  std::size_t believed_ = 0;  // The index in `states_` that counts where ranks contradict each other.
  std::vector<RankGroups> rank_groups_;
  std::set<std::string> second_names_;  // Of excluded parameters.
};

}  // namespace

llvm::Expected<Checkpoint> DescribeCheckpoint(ReadableFileSystem& files, const std::string& folder,
                                              const RankPreference& preference, unsigned threads) {
  auto checkpoint = Description(files, folder, preference, threads).Run();
  if (!checkpoint) return NameTagBeside(files, folder, checkpoint.takeError());
  return checkpoint;
}

}  // namespace ucp::deepspeed
