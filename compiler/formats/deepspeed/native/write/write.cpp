// The files, in the order in which they are laid out (README.md says what is in them):
//
//   latest                                                   the tag
//   <tag>/mp_rank_XX_model_states.pt                         XX = stage * tp + tensor rank
//   <tag>/zero_pp_rank_D_mp_rank_XX_model_states.pt          at stage 3: one for each partition D
//   <tag>/[bf16_]zero_pp_rank_D_mp_rank_XX_optim_states.pt   partition D; none without ZeRO
//   <tag>/expp_rank_E_mp_rank_XX_optim_states.pt             without ZeRO: what expert rank E has of the optimizer
//   <tag>/layer_L_expert_G_mp_rank_XX_model_states.pt        expert G of the L-th layer that has some
//   <tag>/layer_LL[-model_TT]-model_states.pt                a pipeline's weights
#include "compiler/formats/deepspeed/native/write/write.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/common/expert_groups.h"
#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/pipeline_layers.h"
#include "compiler/formats/deepspeed/common/pipeline_names.h"
#include "compiler/formats/deepspeed/native/write/companions.h"
#include "compiler/formats/deepspeed/native/write/experts.h"
#include "compiler/formats/deepspeed/native/write/fused_experts.h"
#include "compiler/formats/deepspeed/native/write/groups.h"
#include "compiler/formats/deepspeed/native/write/job/adagrad.h"
#include "compiler/formats/deepspeed/native/write/job/adapt_config.h"
#include "compiler/formats/deepspeed/native/write/job/carried.h"
#include "compiler/formats/deepspeed/native/write/job/elastic.h"
#include "compiler/formats/deepspeed/native/write/job/engine_config.h"
#include "compiler/formats/deepspeed/native/write/job/job_config.h"
#include "compiler/formats/deepspeed/native/write/job/open_settings.h"
#include "compiler/formats/deepspeed/native/write/loose_states.h"
#include "compiler/formats/deepspeed/native/write/model.h"
#include "compiler/formats/deepspeed/native/write/muon.h"
#include "compiler/formats/deepspeed/native/write/nested_module.h"
#include "compiler/formats/deepspeed/native/write/zero0_optimizer.h"
#include "compiler/formats/deepspeed/native/write/zero12_optimizer.h"
#include "compiler/formats/deepspeed/native/write/zero3_optimizer.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/support/parallel.h"
#include "compiler/support/user_option.h"

namespace ucp::deepspeed {
namespace {

constexpr std::int64_t kMaxFiles = 1 << 15;  // Their headers are made in memory.

// The tag becomes a folder, and comes from a checkpoint that anyone may have written.
llvm::Error CheckTag(const std::string& tag) {
  const bool is_plain = !tag.empty() && tag != "." && tag != ".." && tag.size() <= 255 && tag != "latest" &&
                        tag.find('/') == std::string::npos && tag.find('\0') == std::string::npos;
  if (is_plain) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "the tag `{}` cannot be the name of a checkpoint's folder; choose one with {}", tag,
              OptionName(UserOption::kTag));
}

bool LooksLikePipeline(const TrainingState& training) {
  return std::any_of(training.groups.begin(), training.groups.end(), [](const OptimizerGroup& group) {
    return std::any_of(group.parameters.begin(), group.parameters.end(),
                       [](const std::string& name) { return PlaceInPipeline(name).has_value(); });
  });
}

// Whether the model's module is one that this version can write the files of.
llvm::Error CheckModule(const TargetRequest& request, const WriteOptions& options) {
  const TrainingState& training = request.training;
  if (StateOf(training).pipeline) return llvm::Error::success();
  if (options.pp > 1) {
    return Fail(ErrorCode::kUnsupported,
                "pp={}: {} does not know the layer files of a pipeline, and only a PipelineModule has stages",
                options.pp, CalledInMessages(training));
  }
  // DeepSpeed's own universal folders do not list the layers; a plain module could also have such names.
  if (request.source_mesh.axes.empty() && LooksLikePipeline(training)) {
    return Fail(
        ErrorCode::kUnsupported,
        "the names of the source are those of a pipeline's layers, and it does not say which layers have files; "
        "convert from the native checkpoint that it was made of");
  }
  return HasNestedModule(training, request.tensors) ? CheckNestedModule(request.tensors) : llvm::Error::success();
}

llvm::Error CheckFrozen(const TargetRequest& request, const WriteOptions& options) {
  auto frozen = std::find_if(request.tensors.begin(), request.tensors.end(),
                             [](const LogicalTensor& tensor) { return tensor.kind == TensorKind::kFrozen; });
  if (!options.exclude_frozen || frozen == request.tensors.end()) return llvm::Error::success();
  if (StateOf(request.training).excludes_frozen) {  // All but some that the optimizer could have had, or second names.
    if (options.stage < 3) return llvm::Error::success();
    return Fail(ErrorCode::kUnsupported,
                "zero=3: `{}` is not trained, and the source was saved with exclude_frozen_parameters all the same; "
                "stage 3 has it in a list of all such parameters, or not at all",
                frozen->name);
  }
  return Fail(ErrorCode::kUsage,
              "exclude_frozen=true: the source has frozen parameters, such as `{}`, and a target with them loads as "
              "well",
              frozen->name);
}

// Without ZeRO and in float32, the module's tensors are the masters.
llvm::Error CheckMasters(const TargetRequest& request, const WriteOptions& options) {
  if (options.stage != 0 || options.wrapper != WholeWrapper::kNone) return llvm::Error::success();
  for (const LogicalTensor& tensor : request.tensors) {
    for (const LogicalTensor::State& state : tensor.states) {
      if (state.name != kMasterState || state.dtype == DType::kFloat32) continue;
      return Fail(ErrorCode::kUnsupported,
                  "the master of `{}` is {}, and at zero=0 with dtype=fp32 the model is its own master", tensor.name,
                  Name(state.dtype));
    }
  }
  return llvm::Error::success();
}

// Whether tensor-parallel ranks of the source shared whole experts out with the data-parallel ones: then more ranks do
// than are data-parallel. Without ZeRO the files do not say how many those are, and this returns false.
bool HasWholeExperts(const Mesh& source) {
  const std::int64_t dp = source.Size("dp");
  return dp > 1 && source.Size("edp") * source.Size("ep") > dp;
}

// The request, as all that writes it wants it.
struct Wanted {
  const TargetRequest& request;
  const WriteOptions& options;
  const Carried& carried;
  const ExpertsToWrite& experts;
  const std::string& folder;
};

// The files of one rank besides the optimizer's files of ZeRO.
llvm::Error AddModelFiles(const Wanted& wanted, const RankToWrite& rank, TargetFiles& target) {
  const auto& [request, options, carried, experts, folder] = wanted;
  const auto expert_rank = static_cast<std::size_t>(experts.FirstExpertRank(rank.coordinate.At("tp")));
  const std::vector<FlatGroupToWrite>& first = rank.groups[expert_rank];
  UCP_RETURN_IF_ERROR(AddModelStates(request, options, carried, experts, folder, rank.coordinate, first, target));
  UCP_RETURN_IF_ERROR(experts.AddFiles(folder, rank.coordinate, target));
  if (options.stage == 0 && experts.any()) {
    AddExpertOptimizerFiles(request, options, carried, folder, rank.coordinate, experts, rank.groups, target);
  }
  return llvm::Error::success();
}

// The files of the tensor-parallel ranks from `mp` on that share experts out together: one, if none are whole.
llvm::Error AddRanks(const Wanted& wanted, std::int64_t mp, const GroupsToWrite& groups, LooseStatesToWrite& loose,
                     TargetFiles& target) {
  const auto& [request, options, carried, experts, folder] = wanted;
  std::vector<RankToWrite> ranks;
  for (std::int64_t i = mp; i < mp + experts.tensor_ranks(); ++i) {
    const std::int64_t tp = i % options.tp;
    RankToWrite rank{Coordinate{{{"pp", i / options.tp}, {"tp", tp}}}, {}};
    for (std::int64_t ep = 0; ep < options.ep; ++ep) {
      Coordinate holder = rank.coordinate;
      holder.at["ep"] = ep;
      UCP_ASSIGN_OR_RETURN(rank.groups.emplace_back(), groups.OfRank(holder));
      loose.GiveTo(rank.groups.back());
    }
    ranks.push_back(std::move(rank));
  }
  auto add_models = [&]() -> llvm::Error {
    for (const RankToWrite& rank : ranks) UCP_RETURN_IF_ERROR(AddModelFiles(wanted, rank, target));
    return llvm::Error::success();
  };
  if (options.stage == 1 || options.stage == 2) {
    // These are composed meanwhile, and added behind the others.
    FlatOptimizerFiles files(request, options, carried, ranks, experts);
    UCP_RETURN_IF_ERROR(ForEachInParallel(2, {request.threads, nullptr}, [&](unsigned, std::uint64_t number) {
      return number == 0 ? add_models() : files.Compose(request.threads);
    }));
    files.AddTo(folder, target);
    return llvm::Error::success();
  }
  UCP_RETURN_IF_ERROR(add_models());
  if (options.stage == 3) AddPartitionedOptimizerFiles(request, options, carried, folder, ranks, experts, target);
  return llvm::Error::success();
}

ExpertStages StagesOfExperts(const TargetRequest& request, const ExpertsToWrite& experts) {
  ExpertStages stages;
  const std::optional<PipelineLayers>& pipeline = StateOf(request.training).pipeline;
  for (const LogicalTensor& tensor : request.tensors) {
    if (!pipeline || !experts.IsExpert(tensor.name)) continue;
    const auto& held = request.layout.Find(tensor.name)->stages;
    stages.target[tensor.name] = held ? held->front() : 0;
    const std::set<std::int64_t>* before = RememberedStages(*pipeline, tensor.name);
    stages.source[tensor.name] = before != nullptr && pipeline->stage_count > 1 ? *before->begin() : 0;
  }
  return stages;
}

llvm::Error CheckStageOfExperts(const WriteOptions& options, const ExpertsToWrite& experts) {
  if (options.stage < 3 || experts.are_fused()) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported, "zero=3: DeepSpeed's own layer of experts runs below stage 3 only");
}

// Refuses targets that DeepSpeed would not load. `job` is null if no configuration was given.
llvm::Error CheckTarget(const TargetRequest& request, const EngineConfig* job, const WriteOptions& options) {
  UCP_RETURN_IF_ERROR(CheckTag(request.training.tag));
  UCP_RETURN_IF_ERROR(CheckAutoEp(request, job, options));
  UCP_RETURN_IF_ERROR(CheckModule(request, options));
  UCP_RETURN_IF_ERROR(CheckMuonIsWritten(request.training, options));
  UCP_RETURN_IF_ERROR(CheckAdagradRuns(request.training, options));
  UCP_RETURN_IF_ERROR(CheckMasters(request, options));
  UCP_RETURN_IF_ERROR(CheckFrozen(request, options));
  if (options.mp() * options.dp <= kMaxFiles) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "{} ranks would write more than {} files", options.mp() * options.dp, kMaxFiles);
}

// Spreads the groups' experts over the target's ranks. `training` is the request's.
llvm::Error RegroupExperts(const TargetRequest& request, const WriteOptions& options, const ExpertsToWrite& experts,
                           TrainingState& training) {
  if (!experts.any()) return llvm::Error::success();
  UCP_RETURN_IF_ERROR(CheckStageOfExperts(options, experts));
  const bool were_whole = experts.are_fused() || HasWholeExperts(request.source_mesh);
  const bool are_whole = experts.are_fused() || experts.tensor_ranks() > 1;
  const TensorRanks cut_over{were_whole ? 1 : request.source_mesh.Size("tp"), are_whole ? 1 : options.tp};
  UCP_ASSIGN_OR_RETURN(training.groups, GroupsForExpertRanks(training, request.tensors, options.ep, cut_over,
                                                             StagesOfExperts(request, experts)));
  return llvm::Error::success();
}

// All files but those of the ranks.
llvm::Expected<TargetFiles> BeginTarget(const TargetRequest& request, const WriteOptions& options,
                                        const Carried& carried, std::vector<std::string> remarks) {
  TargetFiles target;
  target.format = "deepspeed";
  target.mesh = request.layout.mesh;
  target.directories = {request.training.tag};
  target.remarks = std::move(remarks);
  target.remarks.insert(target.remarks.end(), carried.remarks.begin(), carried.remarks.end());
  AddFile(target, "latest", request.training.tag);
  UCP_RETURN_IF_ERROR(AddCompanions(request, options, target));
  return target;
}

}  // namespace

llvm::Expected<TargetFiles> LayOutCheckpoint(const TargetRequest& asked) {
  std::vector<std::string> remarks;
  TrainingState training = asked.training;
  Strategy strategy = asked.strategy;
  const TargetRequest request{asked.tensors, asked.layout,     training, asked.source_mesh,
                              strategy,      asked.companions, nullptr,  asked.threads};
  std::optional<EngineConfig> config;
  if (asked.job_config != nullptr) {
    UCP_ASSIGN_OR_RETURN(config, ParseEngineConfig(*asked.job_config));
    UCP_RETURN_IF_ERROR(TakeSettingsOfJob(*config, asked.tensors, training, remarks));
  }
  TrainingState configured = training;
  pytorch::ValuePtr job;
  if (config) {
    UCP_ASSIGN_OR_RETURN(job, ConfigOfJob(*config, asked.strategy));
    SetEntry(configured.engine, "ds_config", job);
  }
  UCP_ASSIGN_OR_RETURN(strategy, CloseSettings(asked.strategy, configured, asked.tensors, remarks));
  UCP_ASSIGN_OR_RETURN(WriteOptions options, ReadWriteOptions(strategy, configured));
  UCP_RETURN_IF_ERROR(CheckTarget(request, config ? &*config : nullptr, options));
  UCP_ASSIGN_OR_RETURN(ExpertsToWrite experts, ExpertsToWrite::Find(request, options));
  UCP_RETURN_IF_ERROR(RegroupExperts(request, options, experts, training));
  GroupsToWrite groups(request, options, experts);
  UCP_RETURN_IF_ERROR(groups.Order());
  LooseStatesToWrite loose(request.training, options);
  if (config) std::ranges::move(CompareWithJob(*config, configured, options, request), std::back_inserter(remarks));
  UCP_RETURN_IF_ERROR(ChooseForm(training, request.tensors, options, remarks));
  const Carried carried = CarryOver(request, options, job);
  UCP_ASSIGN_OR_RETURN(TargetFiles target, BeginTarget(request, options, carried, std::move(remarks)));
  const Wanted wanted{request, options, carried, experts, training.tag};
  for (std::int64_t mp = 0; mp < options.mp(); mp += experts.tensor_ranks()) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    UCP_RETURN_IF_ERROR(AddRanks(wanted, mp, groups, loose, target));
  }
  UCP_RETURN_IF_ERROR(loose.CheckAllGiven());
  if (HasLayerFiles(request, experts)) UCP_RETURN_IF_ERROR(AddLayerFiles(request, options, training.tag, target));
  return target;
}

}  // namespace ucp::deepspeed
