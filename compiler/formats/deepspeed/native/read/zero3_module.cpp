#include "compiler/formats/deepspeed/native/read/zero3_module.h"

#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string>

#include "compiler/formats/deepspeed/common/expert_ranks.h"
#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/common/model_agreement.h"
#include "compiler/formats/deepspeed/native/read/optimizer/partition_buffers.h"
#include "compiler/formats/deepspeed/native/read/optimizer/zero12_groups.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp::deepspeed {
namespace {

// Random numbers are the script's affair, and the target may have other partitions.
std::string OneCounts() {
  return fmt::format("the former counts for all partitions of a target, or the one that {} names",
                     OptionName(UserOption::kPreferRank));
}

class PartitionedModule {
 public:
  PartitionedModule(const OptimizerContext& context, std::int64_t mp, ModelStates& states)
      : context_(context), mp_(mp), states_(states) {}

  llvm::Error Add() {
    std::vector<Speaker> speakers;
    std::vector<std::int64_t> partitions;  // That have a file.
    for (std::int64_t p = 0; p < context_.partitions; ++p) {
      if (!context_.files.partitioned_model_states.contains({mp_, p})) {
        UCP_RETURN_IF_ERROR(CheckIsNotNeeded(p));
        continue;
      }
      speakers.push_back({"", context_.degrees.RankOf(mp_, p)});
      partitions.push_back(p);
    }
    const std::int64_t believed = partitions[BelievedOf(context_, speakers)];
    std::optional<ModelStates> counts;
    if (believed != partitions.front()) {
      UCP_ASSIGN_OR_RETURN(counts, Read(believed, ModelStatesOf::kNativeCheckpoint));
      UCP_RETURN_IF_ERROR(CheckEngineAlike(context_.checkpoint.inventory, *counts, states_));
      TakeOwnOf(*counts);
    }
    for (const auto& [name, place] : states_.frozen_fragments.tensors) parts_[name].push_back(place);
    for (std::int64_t p : partitions) {
      if (p == partitions.front()) continue;
      std::optional<ModelStates> read;
      if (p != believed) {
        UCP_ASSIGN_OR_RETURN(read, Read(p, ModelStatesOf::kFurtherPartition));
      }
      const ModelStates& other = read ? *read : *counts;
      UCP_RETURN_IF_ERROR(CheckAgrees(other, p));
      UCP_RETURN_IF_ERROR(CheckEngineAlike(context_.checkpoint.inventory, counts ? *counts : states_, other));
      RemarkOnClient(context_.checkpoint.inventory, counts ? *counts : states_, other, OneCounts(), remarked_);
      for (const auto& [name, place] : other.frozen_fragments.tensors) parts_[name].push_back(place);
    }
    for (const auto& [name, shape] : states_.frozen_shapes) UCP_RETURN_IF_ERROR(AddFrozen(name, shape));
    states_.frozen_fragments.tensors.clear();
    return TakeOutPlaceholders();
  }

 private:
  // DeepSpeed 0.16 resumed from a universal folder saves this file for some ranks only. Beside placeholders and copies
  // it has its part of each frozen parameter, and with AutoEP the lists of its own experts.
  llvm::Error CheckIsNotNeeded(std::int64_t partition) const {
    const std::string name = PartitionedModelStatesName({mp_, partition});
    std::vector<std::string> lost;
    for (const auto& [frozen, shape] : states_.frozen_shapes) lost.push_back(frozen);
    if (context_.fused_experts.any()) lost.emplace_back("the list of its experts");
    if (lost.empty()) {
      context_.checkpoint.inventory.remarks.push_back(
          fmt::format("`{}` is missing; it would hold copies of what `{}` has, and is not needed", name, states_.path));
      return llvm::Error::success();
    }
    return Fail(ErrorCode::kBadData,
                "`{}`: `{}` is missing; there are {} partitions, and it has a part of `{}`, which is nowhere else",
                context_.folder, name, context_.partitions, fmt::join(lost, "`, `"));
  }

  // Each partition has buffers and a client state of its own; its lists are those of all.
  void TakeOwnOf(const ModelStates& believed) {
    TakeEngine(believed, states_);
    RemarkOnClient(context_.checkpoint.inventory, believed, states_, OneCounts(), remarked_);
    states_.client = believed.client;
    states_.client_path = believed.path;
    states_.module.extras = believed.module.extras;
    std::map<std::string, TensorPlace> own(believed.module.tensors.begin(), believed.module.tensors.end());
    for (auto& [name, place] : states_.module.tensors) {
      if (auto found = own.find(name); found != own.end()) place = found->second;
    }
  }

  llvm::Expected<ModelStates> Read(std::int64_t partition, ModelStatesOf of) const {
    UCP_ASSIGN_OR_RETURN(
        ModelStates states,
        ReadModelStates(context_.archives, context_.files.partitioned_model_states.at({mp_, partition}), of));
    states.rank = context_.degrees.RankOf(mp_, partition);
    return states;
  }

  llvm::Error CheckAgrees(const ModelStates& other, std::int64_t partition) const {
    UCP_RETURN_IF_ERROR(CheckSameDegrees(context_.folder, states_, other));
    auto disagree = [&](std::string_view list) {
      return Fail(ErrorCode::kBadData,
                  "`{}`: `{}` is not the same in `{}` and `{}`; these files are not of one checkpoint", context_.folder,
                  list, states_.path, other.path);
    };
    auto shapes = states_.param_shapes;
    if (const FusedExperts& experts = context_.fused_experts; experts.any()) {
      UCP_RETURN_IF_ERROR(experts.CheckPartition(states_, other, mp_, partition));
      shapes = experts.ShapesAt(experts.ExpertRankAt(mp_, partition), std::move(shapes));
    }
    const bool has_own = !states_.shapes_are_of_optimizer || other.has_param_shapes;
    if (has_own && other.param_shapes != shapes) return disagree("param_shapes");
    if (other.frozen_shapes != states_.frozen_shapes) return disagree("frozen_param_shapes");
    return llvm::Error::success();
  }

  // A frozen parameter is cut like a trained one, and its parts are vectors of their own.
  llvm::Error AddFrozen(const std::string& name, const std::vector<std::int64_t>& shape) {
    auto flat = LayOutGroup({{name, shape}}, {});
    if (!flat) return AddContext(flat.takeError(), fmt::format("`{}`: `{}`", context_.folder, states_.path));
    const std::int64_t length = CeilDivide(flat->elements, context_.partitions);
    const std::vector<TensorPlace>& places = parts_[name];
    if (static_cast<std::int64_t>(places.size()) != context_.partitions) {
      return Fail(ErrorCode::kBadData,
                  "`{}`: `frozen_param_shapes` lists `{}`, and {} of {} partitions have it in `frozen_param_fragments`",
                  context_.folder, name, places.size(), context_.partitions);
    }
    Buffer buffer;
    buffer.dtype = places.front().dtype;
    buffer.part_elements = length;
    for (std::size_t p = 0; p < places.size(); ++p) {
      const TensorPlace& place = places[p];
      if (place.elements != length || !place.strides.empty() || place.dtype != buffer.dtype) {
        return Fail(ErrorCode::kBadData,
                    "`{}`: the fragment of `{}` in partition {} has {} elements of {}, and {} of {} are a partition's "
                    "part of it",
                    context_.folder, name, p, place.elements, Name(place.dtype), length, Name(buffer.dtype));
      }
      buffer.parts.push_back({place.record, place.offset, place.elements});
    }
    Shard shard = LocalShard(context_.degrees, mp_, TensorKind::kFrozen, {name, shape});
    shard.spread = Spread::kEachTensor;
    shard.states = context_.storage().Add(BufferSet{{kWeightState, context_.storage().Add(std::move(buffer))}});
    context_.storage().shards.push_back(std::move(shard));
    return llvm::Error::success();
  }

  // Before 0.6.0, a placeholder has one element.
  bool IsPlaceholder(const TensorPlace& place) const {
    const bool is_old = states_.shapes_are_of_optimizer && place.sizes == std::vector<std::int64_t>{1};
    return place.elements == 0 || is_old;
  }

  // The module's placeholder for a parameter: its elements are in the optimizer's files, or in the fragments. A second
  // name of a parameter is also a placeholder.
  llvm::Error TakeOutPlaceholders() {
    std::set<std::string> elsewhere;
    for (const auto& group : states_.param_shapes) {
      for (const NamedShape& shape : group) elsewhere.insert(shape.name);
    }
    for (const auto& [name, shape] : states_.frozen_shapes) elsewhere.insert(name);
    const std::map<RecordId, std::string> first_names = FirstNamesByRecord(elsewhere);
    std::vector<std::string> left_out;
    std::vector<std::pair<std::string, TensorPlace>> tensors;
    for (auto& [name, place] : states_.module.tensors) {
      if (elsewhere.contains(name)) continue;
      const std::string first = FirstNameOf(name, place, first_names);
      if (elsewhere.contains(first)) {
        context_.checkpoint.inventory.aliases.emplace(name, first);
        continue;
      }
      if (IsPlaceholder(place) && !states_.buffer_names.contains(name)) {
        if (ExcludesFrozen(states_)) {  // It leaves parameters out by their first name alone.
          if (mp_ == 0) left_out.push_back(name);
          continue;
        }
        return Fail(ErrorCode::kBadData,
                    "`{}`: `{}` in `{}` is a placeholder, and neither `param_shapes`, `frozen_param_shapes` nor "
                    "`shared_params` says of what; stage 3 does not save the values of a parameter that is not frozen "
                    "and in no group of the optimizer",
                    context_.folder, name, states_.path);
      }
      tensors.emplace_back(name, std::move(place));
    }
    states_.module.tensors = std::move(tensors);
    if (!left_out.empty()) {
      context_.checkpoint.inventory.remarks.push_back(
          fmt::format("`{}` also left out: nothing says what they are second names of", fmt::join(left_out, "`, `")));
    }
    return llvm::Error::success();
  }

  // Each parameter has a placeholder of its own, which its second names share. Where several first names share one, it
  // says nothing.
  std::map<RecordId, std::string> FirstNamesByRecord(const std::set<std::string>& first_names) const {
    std::map<RecordId, std::string> by_record;
    for (const auto& [name, place] : states_.module.tensors) {
      if (!IsPlaceholder(place) || !first_names.contains(name)) continue;
      auto [found, is_new] = by_record.emplace(place.record, name);
      if (!is_new) found->second.clear();
    }
    return by_record;
  }

  // By `shared_params`, which lacks names that one module has for the same tensor or the same module within it; else by
  // the placeholder. Empty if neither says it.
  std::string FirstNameOf(const std::string& name, const TensorPlace& place,
                          const std::map<RecordId, std::string>& first_names) const {
    const auto& shared_params = context_.states.front().shared_params;
    if (auto shared = shared_params.find(name); shared != shared_params.end()) return shared->second;
    if (!IsPlaceholder(place) || states_.buffer_names.contains(name)) return "";
    auto found = first_names.find(place.record);
    return found == first_names.end() ? "" : found->second;
  }

  const OptimizerContext& context_;
  const std::int64_t mp_;
  ModelStates& states_;
  std::set<std::string> remarked_;                         // Keys of the client state.
  std::map<std::string, std::vector<TensorPlace>> parts_;  // Of frozen parameters, by partition.
};

}  // namespace

llvm::Error AddPartitionedModule(const OptimizerContext& context, std::vector<ModelStates>& states) {
  for (std::size_t mp = 0; mp < states.size(); ++mp) {
    UCP_RETURN_IF_ERROR(PartitionedModule(context, static_cast<std::int64_t>(mp), states[mp]).Add());
  }
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
