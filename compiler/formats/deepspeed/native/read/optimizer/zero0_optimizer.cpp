// Checkpoints without ZeRO: one part for everything. Parameters, masters and states are tensors of their own, or, of
// FP16_Optimizer, places in a flat vector for each group.
#include <string_view>
#include <unordered_map>

#include "compiler/formats/deepspeed/common/loss_scale.h"
#include "compiler/formats/deepspeed/native/read/optimizer/loose_states.h"
#include "compiler/formats/deepspeed/native/read/optimizer/optimizer_sources.h"
#include "compiler/formats/deepspeed/native/read/optimizer/partition_buffers.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero0_names.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero12_groups.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

class WholeSource {
 public:
  WholeSource(const OptimizerContext& context, std::int64_t mp, const ModelStates& model, WholeOptimizer& optimizer,
              std::int64_t expert_rank)
      : context_(context), mp_(mp), model_(model), optimizer_(optimizer), expert_rank_(expert_rank) {
    optimizer_.rank = model_.rank;
  }

  llvm::Expected<RankGroups> Add() {
    RankGroups rank{.speaker = optimizer_, .path = "optimizer"};
    if (optimizer_.form != WholeForm::kModule) rank.groups_path = "optimizer_state_dict.param_groups";
    for (std::size_t g = 0; g < optimizer_.groups.size(); ++g) {
      WholeGroup& group = optimizer_.groups[g];
      UCP_RETURN_IF_ERROR(optimizer_.form == WholeForm::kFlatGroups ? AddFlat(g, group.tensors.front())
                                                                    : AddParameters(g, group));
      OptimizerGroup added{group.hyper_parameters, nullptr, {}};
      UCP_RETURN_IF_ERROR(JoinSteps(group, added.step));
      for (const NamedShape& parameter : model_.param_shapes[g]) added.parameters.push_back(parameter.name);
      rank.groups.push_back(std::move(added));
    }
    GatherLossScale(FindEntry(model_.engine, "ds_config"), optimizer_.others);
    rank.others = std::move(optimizer_.others);
    return rank;
  }

 private:
  llvm::Error AddFlat(std::size_t g, SteppedTensor& tensor) const {
    auto flat = LayOutGroup(model_.param_shapes[g], {});
    if (!flat) return AddContext(flat.takeError(), fmt::format("`{}`: `{}`", context_.folder, model_.path));
    UCP_RETURN_IF_ERROR(CheckOne(fmt::format("group {}", g), {flat->elements}, tensor));
    const BufferSetId states = AddBuffers(context_.storage(), flat->elements, {{&tensor, &optimizer_}});
    std::vector<SteppedPiece> stepped;
    for (const FlatParameter& parameter : flat->parameters) {
      stepped.push_back({context_.storage().shards.size(), {}, {}, 0, parameter.elements, parameter.offset});
      Shard shard = LocalShard(context_.degrees, mp_, TensorKind::kParameter, {parameter.name, parameter.shape});
      shard.base = parameter.offset;
      shard.states = states;
      context_.storage().shards.push_back(std::move(shard));
    }
    AddLooseStates(context_, tensor, {{flat->elements}, stepped}, "");
    return llvm::Error::success();
  }

  llvm::Error AddParameters(std::size_t g, WholeGroup& group) const {
    std::unordered_map<std::string_view, const TensorPlace*> in_module;
    if (optimizer_.form == WholeForm::kModule) {
      for (const auto& [name, place] : model_.module.tensors) in_module.emplace(name, &place);
    }
    for (std::size_t i = 0; i < group.tensors.size(); ++i) {
      const NamedShape& parameter = model_.param_shapes[g][i];
      SteppedTensor& tensor = group.tensors[i];
      if (optimizer_.form == WholeForm::kModule) tensor.master = *in_module.at(parameter.name);
      UCP_RETURN_IF_ERROR(CheckOne(fmt::format("parameter `{}`", parameter.name), parameter.shape, tensor));
      UCP_RETURN_IF_ERROR(CheckStrides(parameter, tensor));
      Shard shard = LocalShard(context_.degrees, mp_, TensorKind::kParameter, parameter);
      shard.strides = tensor.master.strides;
      shard.states = AddBuffers(context_.storage(), tensor.master.elements, {{&tensor, &optimizer_}},
                                MasterInParts(parameter.name));
      AddLooseStates(context_, tensor,
                     {parameter.shape, {{context_.storage().shards.size(), {}, {}, 0, tensor.master.elements, 0}}},
                     tensor.master.strides.empty() ? "" : "its parameter is transposed");
      context_.storage().shards.push_back(std::move(shard));
    }
    return llvm::Error::success();
  }

  // The weights of AutoEP's experts are in a file each.
  std::optional<Buffer> MasterInParts(const std::string& name) const {
    if (optimizer_.form != WholeForm::kModule || !context_.fused_experts.Holds(name)) return std::nullopt;
    return context_.fused_experts.WeightsOf(name, mp_, expert_rank_);
  }

  llvm::Error CheckOne(const std::string& owner, const std::vector<std::int64_t>& sizes, SteppedTensor& tensor) const {
    SetAsideOthers(sizes, optimizer_.path, owner, tensor);
    return CheckParts(context_, owner, {{&tensor, &optimizer_}});
  }

  // Of a transposed parameter all states are transposed alike, since they were made like it.
  llvm::Error CheckStrides(const NamedShape& parameter, const SteppedTensor& tensor) const {
    for (const auto& [state, place] : tensor.states) {
      if (place.strides == tensor.master.strides) continue;
      return Fail(
          ErrorCode::kUnsupported,
          "`{}`: `{}` of parameter `{}` has other strides than its master, which this version does not read yet",
          optimizer_.path, state, parameter.name);
    }
    return llvm::Error::success();
  }

  // The parameters of a group step together; one that never had a gradient has no state at all.
  llvm::Error JoinSteps(const WholeGroup& group, pytorch::ValuePtr& step) const {
    for (const SteppedTensor& tensor : group.tensors) {
      if (tensor.states.empty() && tensor.others.empty() && !tensor.step) continue;
      if (!step) step = tensor.step;
      UCP_RETURN_IF_ERROR(
          CheckSameStep(context_.checkpoint.training, step, optimizer_.path, tensor.step, optimizer_.path));
    }
    return llvm::Error::success();
  }

  const OptimizerContext& context_;
  const std::int64_t mp_;
  const ModelStates& model_;
  WholeOptimizer& optimizer_;
  const std::int64_t expert_rank_;
};

}  // namespace

llvm::Expected<RankGroups> AddWholeRank(const OptimizerContext& context, std::int64_t mp, const ModelStates& states,
                                        WholeOptimizer& optimizer, std::int64_t expert_rank) {
  return WholeSource(context, mp, states, optimizer, expert_rank).Add();
}

llvm::Expected<std::vector<RankGroups>> AddWholeOptimizer(const OptimizerContext& context,
                                                          std::vector<WholeOptimizer>& optimizers) {
  std::vector<RankGroups> ranks;
  for (std::size_t mp = 0; mp < optimizers.size(); ++mp) {
    UCP_ASSIGN_OR_RETURN(RankGroups rank,
                         AddWholeRank(context, static_cast<std::int64_t>(mp), context.states[mp], optimizers[mp]));
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace ucp::deepspeed
