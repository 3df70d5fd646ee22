// Stage 3. `param_shapes` has an entry for each sub-group; a parameter of n elements takes k = ceil(n / partitions)
// places of each partition's vector, behind those of the parameters before it.
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/formats/deepspeed/common/expert_ranks.h"
#include "compiler/formats/deepspeed/native/read/optimizer/loose_states.h"
#include "compiler/formats/deepspeed/native/read/optimizer/optimizer_sources.h"
#include "compiler/formats/deepspeed/native/read/optimizer/partition_buffers.h"
#include "compiler/formats/deepspeed/native/read/optimizer/unread_keys.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero12_groups.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero3_states.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

// One model-parallel rank.
class PartitionedOptimizer {
 public:
  PartitionedOptimizer(const OptimizerContext& context, std::int64_t mp)
      : context_(context), mp_(mp), model_(context.states[static_cast<std::size_t>(mp)]) {}

  llvm::Error Read() {
    for (std::int64_t p = 0; p < context_.partitions; ++p) {
      UCP_ASSIGN_OR_RETURN(PartitionedStates states,
                           ReadPartitionedStates(context_.archives, context_.files.optimizer_states.at({mp_, p})));
      NoteUnread(states.path, states.unread_keys, context_.checkpoint.inventory.remarks);
      states.rank = context_.degrees.RankOf(mp_, p);
      UCP_RETURN_IF_ERROR(context_.fused_experts.CheckOptimizerFile(states.folding, states.path, mp_, p));
      UCP_RETURN_IF_ERROR(CheckGroups(states));
      partitions_.push_back(std::move(states));
    }
    const PartitionedStates& believed = partitions_[BelievedOf(context_, {partitions_.begin(), partitions_.end()})];
    for (const PartitionedStates& states : partitions_) UCP_RETURN_IF_ERROR(CheckAgrees(believed, states));
    return llvm::Error::success();
  }

  // `together` are the ranks that share experts out, by tensor-parallel rank; the first one adds what all have of them.
  llvm::Expected<RankGroups> Add(std::vector<PartitionedOptimizer>& together) {
    for (std::size_t s = 0; s < model_.param_shapes.size(); ++s) UCP_RETURN_IF_ERROR(AddSubGroup(s, together));
    PartitionedStates& believed = partitions_[BelievedOf(context_, {partitions_.begin(), partitions_.end()})];
    RankGroups rank{.speaker = believed, .groups_path = "optimizer_state_dict.param_groups"};
    for (const SubGroups& group : believed.groups) {
      UCP_ASSIGN_OR_RETURN(OptimizerGroup joined, JoinGroup(believed, group));
      rank.groups.push_back(std::move(joined));
    }
    rank.others = std::move(believed.others);
    return rank;
  }

 private:
  // A partition of a rank, and which of its sub-groups is meant.
  struct Sharing {
    PartitionedOptimizer* of = nullptr;
    std::size_t index = 0;
    RankInFiles place;
  };

  llvm::Error CheckGroups(const PartitionedStates& states) const {
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
    return llvm::Error::success();
  }

  // Values on which all partitions of a rank must agree, but for the steps.
  llvm::Error CheckAgrees(const PartitionedStates& a, const PartitionedStates& b) const {
    UCP_RETURN_IF_ERROR(CheckSameText(context_.folder, "the number of `param_groups`", std::to_string(a.groups.size()),
                                      a.path, std::to_string(b.groups.size()), b.path));
    Inventory& inventory = context_.checkpoint.inventory;
    UCP_RETURN_IF_ERROR(CheckAlike(inventory, "the optimizer", a, pytorch::MakeDict(a.others), b,
                                   pytorch::MakeDict(b.others), pytorch::ListLengths::kMustAgree));
    for (std::size_t g = 0; g < a.groups.size(); ++g) {
      const std::string what = fmt::format("`param_groups` of group {}", g);
      auto members = [&](const PartitionedStates& states) {
        return fmt::format("{}", fmt::join(states.groups[g].members, ", "));
      };
      UCP_RETURN_IF_ERROR(
          CheckSameText(context_.folder, "the list of sub-groups in " + what, members(a), a.path, members(b), b.path));
      UCP_RETURN_IF_ERROR(CheckAlike(inventory, what, a, a.groups[g].hyper_parameters, b, b.groups[g].hyper_parameters,
                                     pytorch::ListLengths::kMustAgree));
    }
    return llvm::Error::success();
  }

  // A sub-group of experts is as many vectors as there are expert ranks.
  llvm::Error AddSubGroup(std::size_t index, std::vector<PartitionedOptimizer>& together) {
    const std::vector<NamedShape>& shapes = model_.param_shapes[index];
    std::vector<PartitionPart> parts;
    for (const PartitionedStates& partition : partitions_) {
      parts.push_back({&partition.sub_groups[index], &partition});
    }
    UCP_RETURN_IF_ERROR(CheckParts(context_, NameOf(index), parts));
    const auto experts = std::count_if(shapes.begin(), shapes.end(), [&](const NamedShape& shape) {
      return context_.fused_experts.Holds(shape.name);
    });
    if (experts == 0) {
      std::vector<Sharing> all;
      for (std::int64_t p = 0; p < context_.partitions; ++p) all.push_back({this, index, {mp_, p}});
      return AddVector(index, shapes, std::nullopt, all);
    }
    if (experts != std::ssize(shapes)) {
      return Fail(ErrorCode::kBadData, "`{}`: {} of `param_shapes` in `{}` has {} tensors of experts, and {} others",
                  context_.folder, NameOf(index), model_.path, experts, std::ssize(shapes) - experts);
    }
    if (this != &together.front()) return together.front().IndexOf(index, model_).takeError();
    const FusedExperts& fused = context_.fused_experts;
    std::vector<std::size_t> indices;
    for (const PartitionedOptimizer& other : together) {
      UCP_ASSIGN_OR_RETURN(indices.emplace_back(), other.IndexOf(index, model_));
    }
    for (std::int64_t rank = 0; rank < fused.ep(); ++rank) {
      std::vector<Sharing> sharing;
      for (const RankInFiles& place : fused.RanksOf(rank)) {
        const auto t = static_cast<std::size_t>(place.tensor_rank);
        sharing.push_back({&together[t], indices[t], place});
      }
      UCP_RETURN_IF_ERROR(AddVector(index, fused.ShapesAt(rank, shapes), rank, sharing));
    }
    return llvm::Error::success();
  }

  // Where this rank has the sub-group of experts that another one lists at `index`. Ranks can have other numbers of
  // sub-groups before it, of what they cut unevenly.
  llvm::Expected<std::size_t> IndexOf(std::size_t index, const ModelStates& of) const {
    auto names = [](const std::vector<NamedShape>& shapes) {
      std::vector<std::string> all;
      for (const NamedShape& shape : shapes) all.push_back(shape.name);
      return all;
    };
    for (std::size_t s = 0; s < model_.param_shapes.size(); ++s) {
      if (names(model_.param_shapes[s]) == names(of.param_shapes[index])) return s;
    }
    return Fail(ErrorCode::kBadData,
                "`{}`: {} of `param_shapes` in `{}` has experts, and `{}` has no sub-group of these", context_.folder,
                NameOf(index), of.path, model_.path);
  }

  // The part that `sharing` partitions hold together; of one expert rank, if it is given.
  llvm::Error AddVector(std::size_t index, const std::vector<NamedShape>& shapes,
                        std::optional<std::int64_t> expert_rank, const std::vector<Sharing>& sharing) {
    auto flat = LayOutGroup(shapes, {});
    if (!flat) return AddContext(flat.takeError(), fmt::format("`{}`: `{}`", context_.folder, model_.path));
    std::vector<Shard> shards;
    std::int64_t length = 0;
    for (const FlatParameter& parameter : flat->parameters) {
      Shard shard = LocalShard(context_.degrees, mp_, TensorKind::kParameter, {parameter.name, parameter.shape});
      if (expert_rank) shard.coordinate = context_.PlaceOfExperts(mp_, *expert_rank);
      shard.base = length;
      shard.spread = Spread::kEachTensor;
      shards.push_back(std::move(shard));
      length += CeilDivide(parameter.elements, std::ssize(sharing));
    }
    std::vector<PartitionPart> parts;
    for (const Sharing& one : sharing) {
      PartitionedStates& partition = one.of->partitions_[static_cast<std::size_t>(one.place.partition)];
      SteppedTensor& held = partition.sub_groups[one.index];
      UCP_RETURN_IF_ERROR(CheckSharing(partition, one.index, sharing));
      UCP_RETURN_IF_ERROR(CheckLength(partition.path, one.index, held.master, length, std::ssize(sharing)));
      SetAsideOthers({length}, partition.path, NameOf(one.index), held);
      parts.push_back({&held, &partition});
    }
    UCP_RETURN_IF_ERROR(CheckParts(context_, NameOf(index), parts));
    const BufferSetId states = AddBuffers(context_.storage(), length, parts);
    std::vector<SteppedPiece> stepped;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      stepped.push_back({context_.storage().shards.size(), {}, {}, 0, flat->parameters[i].elements, shards[i].base});
      shards[i].states = states;
      context_.storage().shards.push_back(std::move(shards[i]));
    }
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].tensor->others.empty()) continue;
      AddLooseStates(context_, *parts[p].tensor,
                     PartOfEach(stepped, length, std::ssize(parts), static_cast<std::int64_t>(p)), "");
    }
    return llvm::Error::success();
  }

  static std::string NameOf(std::size_t sub_group) { return fmt::format("sub-group {}", sub_group); }

  // The file's own statement of who shares the sub-group.
  llvm::Error CheckSharing(const PartitionedStates& partition, std::size_t index,
                           const std::vector<Sharing>& sharing) const {
    std::vector<std::int64_t> ranks;  // As all are counted; experts and stages are not together.
    for (const Sharing& one : sharing)
      ranks.push_back(one.place.partition * context_.degrees.tp + one.place.tensor_rank);
    if (partition.partition_ranks.empty() || partition.partition_ranks[index] == ranks) return llvm::Error::success();
    return Fail(ErrorCode::kBadData,
                "`{}`: {} is cut over the ranks {}, as `ds_zero_partition_groups` in `{}` says, and by `ep_size` and "
                "`use_data_before_expert_parallelism` over {}",
                context_.folder, NameOf(index), fmt::join(partition.partition_ranks[index], ", "), partition.path,
                fmt::join(ranks, ", "));
  }

  llvm::Error CheckLength(const std::string& path, std::size_t index, const TensorPlace& master, std::int64_t length,
                          std::int64_t partitions) const {
    if (master.elements == length) return llvm::Error::success();
    return Fail(ErrorCode::kBadData,
                "`{}`: the master of {} has {} elements in `{}`, and the parameters that `param_shapes` in `{}` lists "
                "take {} of each of {} partitions",
                context_.folder, NameOf(index), master.elements, path, model_.path, length, partitions);
  }

  // The sub-groups of a group step together.
  llvm::Expected<OptimizerGroup> JoinGroup(const PartitionedStates& first, const SubGroups& group) const {
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
  for (std::int64_t first = 0; first < context.degrees.mp(); first += context.tensor_ranks()) {
    std::vector<PartitionedOptimizer> together;
    for (std::int64_t mp = first; mp < first + context.tensor_ranks(); ++mp) {
      UCP_RETURN_IF_ERROR(together.emplace_back(context, mp).Read());
    }
    for (PartitionedOptimizer& rank : together) {
      UCP_ASSIGN_OR_RETURN(ranks.emplace_back(), rank.Add(together));
    }
  }
  return ranks;
}

}  // namespace ucp::deepspeed
