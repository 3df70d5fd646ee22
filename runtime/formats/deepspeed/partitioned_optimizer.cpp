// Stage 3. `param_shapes` has an entry for each sub-group; a parameter of n elements takes k = ceil(n / partitions)
// places of each partition's vector, behind those of the parameters before it.
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "runtime/formats/deepspeed/flat_groups.h"
#include "runtime/formats/deepspeed/optimizer_sources.h"
#include "runtime/formats/deepspeed/partition_buffers.h"
#include "runtime/formats/deepspeed/partitioned_states.h"
#include "runtime/formats/pytorch/value_access.h"

namespace ucp::deepspeed {
namespace {

class PartitionedOptimizer {
 public:
  PartitionedOptimizer(const OptimizerContext& context, std::int64_t mp)
      : context_(context), mp_(mp), model_(context.states[static_cast<std::size_t>(mp)]) {}

  llvm::Expected<RankGroups> Add() {
    for (std::int64_t p = 0; p < context_.partitions; ++p) {
      UCP_ASSIGN_OR_RETURN(PartitionedStates states,
                           ReadPartitionedStates(context_.archives, context_.files.optimizer_states.at({mp_, p})));
      partitions_.push_back(std::move(states));
      UCP_RETURN_IF_ERROR(CheckPartition(partitions_.back()));
    }
    for (std::size_t s = 0; s < model_.param_shapes.size(); ++s) UCP_RETURN_IF_ERROR(AddSubGroup(s));
    PartitionedStates& first = partitions_.front();
    RankGroups rank{first.path, {}};
    for (std::size_t g = 0; g < first.groups.size(); ++g) {
      UCP_ASSIGN_OR_RETURN(OptimizerGroup group, JoinGroup(first.groups[g]));
      rank.groups.push_back(std::move(group));
    }
    if (mp_ == 0) context_.checkpoint.training.optimizer = std::move(first.others);
    return rank;
  }

 private:
  llvm::Error CheckPartition(const PartitionedStates& states) const {
    if (states.sub_groups.size() != model_.param_shapes.size()) {
      return Fail(ErrorCode::kBadData, "`{}`: `{}` has {} sub-groups and `param_shapes` in `{}` has {}",
                  context_.folder, states.path, states.sub_groups.size(), model_.path, model_.param_shapes.size());
    }
    if (states.partition_count.value_or(context_.partitions) != context_.partitions) {
      return Fail(ErrorCode::kBadData,
                  "`{}`: `partition_count` in `{}` is {}, and there are files of {} partitions; the missing ones must "
                  "come back, and those that are stale go",
                  context_.folder, states.path, *states.partition_count, context_.partitions);
    }
    const PartitionedStates& first = partitions_.front();
    UCP_RETURN_IF_ERROR(CheckSameText(context_, "the number of `param_groups`", std::to_string(first.groups.size()),
                                      first.path, std::to_string(states.groups.size()), states.path));
    auto text = [](const SubGroups& group) {
      return fmt::format("{} with sub-groups {}", pytorch::Print(*group.hyper_parameters),
                         fmt::join(group.members, ", "));
    };
    for (std::size_t g = 0; g < first.groups.size(); ++g) {
      UCP_RETURN_IF_ERROR(CheckSameText(context_, fmt::format("`param_groups` of group {}", g), text(first.groups[g]),
                                        first.path, text(states.groups[g]), states.path));
    }
    return llvm::Error::success();
  }

  llvm::Error AddSubGroup(std::size_t index) {
    auto flat = LayOutGroup(model_.param_shapes[index], {});
    if (!flat) return AddContext(flat.takeError(), fmt::format("`{}`: `{}`", context_.folder, model_.path));
    std::vector<Shard> shards;
    std::int64_t length = 0;
    for (const FlatParameter& parameter : flat->parameters) {
      Shard shard = LocalShard(context_.degrees, mp_, TensorKind::kParameter, {parameter.name, parameter.shape});
      shard.base = length;
      shard.spread = Spread::kEachTensor;
      shards.push_back(std::move(shard));
      length += CeilDivide(parameter.elements, context_.partitions);
    }
    std::vector<PartitionPart> parts;
    const std::string owner = fmt::format("sub-group {}", index);
    for (PartitionedStates& partition : partitions_) {
      SteppedTensor& held = partition.sub_groups[index];
      UCP_RETURN_IF_ERROR(CheckLength(partition.path, owner, held.master, length));
      SetAsideOthers({length}, partition.path, owner, held);
      parts.push_back({&held, &partition.path});
    }
    UCP_RETURN_IF_ERROR(CheckParts(context_, owner, parts));
    const BufferSetId states = AddBuffers(context_.storage(), length, parts);
    for (Shard& shard : shards) {
      shard.states = states;
      context_.storage().shards.push_back(std::move(shard));
    }
    return llvm::Error::success();
  }

  llvm::Error CheckLength(const std::string& path, const std::string& owner, const TensorPlace& master,
                          std::int64_t length) const {
    if (master.elements == length) return llvm::Error::success();
    return Fail(ErrorCode::kBadData,
                "`{}`: the master of {} has {} elements in `{}`, and the parameters that `param_shapes` in `{}` lists "
                "take {} of each of {} partitions",
                context_.folder, owner, master.elements, path, model_.path, length, context_.partitions);
  }

  // The sub-groups of a group step together.
  llvm::Expected<OptimizerGroup> JoinGroup(const SubGroups& group) const {
    const PartitionedStates& first = partitions_.front();
    OptimizerGroup joined{group.hyper_parameters, nullptr, {}};
    for (std::size_t member : group.members) {
      const pytorch::ValuePtr& step = first.sub_groups[member].step;
      if (member == group.members.front()) joined.step = step;
      if (llvm::Error error = CheckSameStep(context_.checkpoint.training, joined.step, first.path, step, first.path)) {
        return AddContext(std::move(error),
                          fmt::format("`{}`: sub-groups {} and {}", context_.folder, group.members.front(), member));
      }
      for (const NamedShape& parameter : model_.param_shapes[member]) joined.parameters.push_back(parameter.name);
    }
    return joined;
  }

  const OptimizerContext& context_;
  const std::int64_t mp_;
  const ModelStates& model_;
  std::vector<PartitionedStates> partitions_;
};

}  // namespace

llvm::Expected<std::vector<RankGroups>> AddPartitionedOptimizer(const OptimizerContext& context) {
  std::vector<RankGroups> ranks;
  for (std::int64_t mp = 0; mp < context.degrees.mp(); ++mp) {
    UCP_ASSIGN_OR_RETURN(RankGroups rank, PartitionedOptimizer(context, mp).Add());
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace ucp::deepspeed
