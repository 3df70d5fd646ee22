#include "compiler/formats/deepspeed/native/write/fused_experts.h"

#include <algorithm>
#include <array>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/common/affine_map_value.h"
#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/native/write/folded_files.h"
#include "compiler/formats/deepspeed/native/write/job/adapt_config.h"
#include "compiler/formats/deepspeed/native/write/module.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/layout/affine_map.h"
#include "compiler/support/error.h"
#include "compiler/support/user_option.h"

namespace ucp::deepspeed {
namespace {

using pytorch::Entry;
using pytorch::MakeDict;
using pytorch::MakeInteger;
using pytorch::MakeList;
using pytorch::MakeText;
using pytorch::ValuePtr;

// AutoEP's names for an expert's three matrices, in the order in which it lists them.
constexpr std::array<std::string_view, 3> kMatrices = {"w1", "w2", "w3"};
constexpr std::string_view kModule = "experts";  // Of the layer's own.

constexpr double kInfoVersion = 0.4;             // UNIVERSAL_CHECKPOINT_VERSION_VALUE of 0.19.8.
constexpr std::int64_t kDescriptionVersion = 1;  // Of placements, affine maps and stage 3's entry alike.

// "model.layers.1.mlp" of "model.layers.1.mlp.experts".
std::string ModuleOf(const std::string& prefix) {
  return prefix.size() > kModule.size() ? prefix.substr(0, prefix.size() - kModule.size() - 1) : "";
}

std::string GroupName(std::int64_t ep) { return fmt::format("ep_size_{}", ep); }

ValuePtr Integers(std::int64_t begin, std::int64_t end) {
  std::vector<ValuePtr> items;
  for (std::int64_t i = begin; i < end; ++i) items.push_back(MakeInteger(i));
  return MakeList(std::move(items));
}

ValuePtr Placement(const ExpertsOfLayer& layer, std::int64_t ep) {
  const std::int64_t own = layer.experts / ep;
  std::vector<ValuePtr> ranks;
  for (std::int64_t rank = 0; rank < ep; ++rank) {
    ranks.push_back(MakeDict(
        {{MakeText("rank"), MakeInteger(rank)}, {MakeText("experts"), Integers(rank * own, (rank + 1) * own)}}));
  }
  return MakeDict({{MakeText("version"), MakeInteger(kDescriptionVersion)},
                   {MakeText("num_experts"), MakeInteger(layer.experts)},
                   {MakeText("ep_size"), MakeInteger(ep)},
                   {MakeText("ranks"), MakeList(std::move(ranks))}});
}

llvm::Expected<ValuePtr> Maps(const TargetRequest& request, const ExpertsOfLayer& layer) {
  std::vector<Entry> maps;
  for (const LogicalTensor* tensor : layer.tensors) {
    UCP_ASSIGN_OR_RETURN(const AffineMap map,
                         AffineMapOf(*request.layout.Find(tensor->name), request.layout.mesh, "ep"));
    maps.push_back({MakeText(tensor->name), MakeAffineMap(map)});
  }
  return MakeDict(
      {{MakeText("version"), MakeInteger(kDescriptionVersion)}, {MakeText("params"), MakeDict(std::move(maps))}});
}

llvm::Error CheckJob(const TargetRequest& request, const EngineConfig* job) {
  if (job == nullptr) return llvm::Error::success();
  const auto& fused = StateOf(request.training).fused_experts;
  const bool has_autoep = SwitchesAutoEpOn(*job->value);
  if (has_autoep == !fused.empty()) return llvm::Error::success();
  if (has_autoep) {
    return Fail(ErrorCode::kUnsupported,
                "`{}` switches AutoEP on (`expert_parallel`), and nothing in {} says that its experts are AutoEP's: "
                "tensors of a run without it have other names, so resume without it; weights alone do not say it",
                job->path, CalledInMessages(request.training));
  }
  return Fail(
      ErrorCode::kUnsupported,
      "`{}` has experts as DeepSpeed's AutoEP keeps them, and `{}` does not switch it on (`expert_parallel`): a "
      "job without AutoEP has other tensors",
      *fused.begin(), job->path);
}

// Refuses jobs that DeepSpeed does not start beside tensor parallelism.
llvm::Error CheckBesideAutoTP(const std::string& name, const WriteOptions& options) {
  if (options.tp == 1) return llvm::Error::success();
  const std::string beside =
      fmt::format("`{}` has experts that DeepSpeed's AutoEP spreads: beside tp={} it runs", name, options.tp);
  if (options.ep == 1) return Fail(ErrorCode::kUsage, "{} with `ep` of 2 or more", beside);
  if (options.data_before_experts) {
    return Fail(ErrorCode::kUnsupported,
                "{} with data_before_experts=false only (`use_data_before_expert_parallelism`)", beside);
  }
  if (!options.says_offload) return llvm::Error::success();
  return Fail(ErrorCode::kUnsupported,
              "{} with nothing that is offloaded, whatever the device says; leave `offload_optimizer` and "
              "`offload_param` out of the job's configuration, and say so in {}",
              beside, OptionName(UserOption::kDsConfig));
}

}  // namespace

llvm::Error CheckDegreesOfAutoEp(const TrainingState& training, const Degrees& degrees) {
  const std::int64_t tp = degrees.mesh.Size("tp");
  if (StateOf(training).fused_experts.empty() || tp == 1) return llvm::Error::success();
  if (degrees.mesh.Size("pp") == 1 && !StateOf(training).pipeline) return llvm::Error::success();
  return Fail(
      ErrorCode::kUnsupported,
      "`{}` has experts that DeepSpeed's AutoEP spreads: in a pipeline DeepSpeed does not start it beside tensor "
      "parallelism, and tp={}",
      *StateOf(training).fused_experts.begin(), tp);
}

llvm::Error CheckAutoEp(const TargetRequest& request, const EngineConfig* job, const WriteOptions& options) {
  UCP_RETURN_IF_ERROR(CheckJob(request, job));
  if (StateOf(request.training).fused_experts.empty()) return llvm::Error::success();
  const std::string& name = *StateOf(request.training).fused_experts.begin();
  auto refuse = [&](const std::string& what) {
    return Fail(ErrorCode::kUnsupported, "`{}` has experts that DeepSpeed's AutoEP spreads: {}", name, what);
  };
  if (options.sp > 1) {
    return refuse(fmt::format("sp={} beside it is not written yet; convert to `universal`", options.sp));
  }
  for (const LogicalTensor& tensor : request.tensors) {
    if (tensor.kind == TensorKind::kParameter || !StateOf(request.training).fused_experts.contains(tensor.name))
      continue;
    return refuse(
        fmt::format("`{}` is not trained, and DeepSpeed gives all ranks the first rank's frozen experts", tensor.name));
  }
  return CheckBesideAutoTP(name, options);
}

llvm::Expected<std::map<std::string, ExpertsOfLayer>> FindFusedLayers(const TargetRequest& request) {
  std::map<std::string, ExpertsOfLayer> layers;
  for (const LogicalTensor& tensor : request.tensors) {  // Sorted: each layer has w1, w2 and w3 in order.
    if (!StateOf(request.training).fused_experts.contains(tensor.name)) continue;
    const std::size_t dot = tensor.name.rfind('.');
    const std::string prefix = tensor.name.substr(0, dot == std::string::npos ? 0 : dot);
    const bool is_named = prefix == kModule || prefix.ends_with("." + std::string(kModule));
    if (!is_named || tensor.shape.size() != 3) {
      return Fail(
          ErrorCode::kUnsupported,
          "`{}` with the shape [{}] holds several experts, and is not a tensor of AutoEP's (`experts.w1` with three "
          "dimensions)",
          tensor.name, fmt::join(tensor.shape, ", "));
    }
    ExpertsOfLayer& layer = layers[prefix];
    layer.prefix = prefix;
    layer.experts = tensor.shape.front();
    layer.tensors.push_back(&tensor);
  }
  for (const auto& [prefix, layer] : layers) {
    bool is_whole = layer.tensors.size() == kMatrices.size();
    for (std::size_t i = 0; is_whole && i < kMatrices.size(); ++i) {
      is_whole = layer.tensors[i]->name == fmt::format("{}.{}", prefix, kMatrices[i]) &&
                 layer.tensors[i]->shape.front() == layer.experts;
    }
    if (is_whole) continue;
    return Fail(ErrorCode::kUnsupported,
                "`{}` has not the tensors w1, w2 and w3 of equally many experts, as AutoEP does", prefix);
  }
  return layers;
}

llvm::Error CheckFusedPlaces(const TargetRequest& request, std::int64_t ep, const ExpertsOfLayer& layer) {
  const std::int64_t own = layer.experts / ep;
  for (const LogicalTensor* tensor : layer.tensors) {
    const TensorLayout& layout = *request.layout.Find(tensor->name);
    for (std::int64_t rank = 0; rank < ep; ++rank) {
      UCP_ASSIGN_OR_RETURN(const ProductSet held, HeldAt(layout, request.layout.mesh, Coordinate{{{"ep", rank}}}));
      ProductSet wanted = ProductSet::Whole(tensor->shape);
      wanted.dims.front() = Selection();
      wanted.dims.front().Append(rank * own, own);
      if (held == wanted && layout.only_at.empty()) continue;
      return Fail(ErrorCode::kUnsupported,
                  "expert rank {} of {} has {} of `{}` by {}, and DeepSpeed gives it {}; leave the spec out, or let it "
                  "cut the experts evenly (`@ep`)",
                  rank, ep, ToString(held), tensor->name, layout.declared_at, ToString(wanted));
    }
  }
  return llvm::Error::success();
}

llvm::Expected<ValuePtr> AutoEpLayers(const TargetRequest& request, const WriteOptions& options,
                                      const ExpertsToWrite& experts, std::int64_t stage, std::int64_t number) {
  const std::int64_t ep = options.ep;
  const std::int64_t rank = experts.ExpertRankOf(number);
  const std::vector<std::int64_t> sharing = experts.RanksOf(rank);
  const std::int64_t copy = std::find(sharing.begin(), sharing.end(), number) - sharing.begin();
  const bool is_cut = options.stage == 3;
  std::vector<ValuePtr> layers;
  for (const ExpertsOfLayer& layer : experts.LayersOf(stage)) {
    UCP_ASSIGN_OR_RETURN(ValuePtr maps, Maps(request, layer));
    const std::int64_t own = layer.experts / ep;
    layers.push_back(MakeDict(
        {{MakeText("moe_layer_id"), MakeInteger(layer.number)},
         {MakeText("module_path"), MakeText(ModuleOf(layer.prefix))},
         {MakeText("num_experts"), MakeInteger(layer.experts)},
         {MakeText("num_local_experts"), MakeInteger(own)},
         {MakeText("ep_size"), MakeInteger(ep)},
         {MakeText("expert_placement"), Placement(layer, ep)},
         {MakeText("affine_maps"), std::move(maps)},
         {MakeText("expert_key_prefix"), MakeText(layer.prefix)},
         {MakeText("checkpoint_format"), MakeText(is_cut ? "zero3_partitioned" : "per_expert_files")},
         {MakeText("checkpoint_format_version"), is_cut ? MakeInteger(kDescriptionVersion) : pytorch::MakeNone()},
         {MakeText("ep_group_name"), MakeText(GroupName(ep))},
         {MakeText("ep_rank"), MakeInteger(rank)},
         {MakeText("expert_data_parallel_rank"), MakeInteger(copy)},
         {MakeText("expert_data_parallel_world_size"), MakeInteger(std::ssize(sharing))},
         {MakeText("global_expert_start"), MakeInteger(rank * own)},
         {MakeText("global_expert_end"), MakeInteger((rank + 1) * own)}}));
  }
  return MakeList(std::move(layers));
}

ValuePtr WithAutoEpLayers(const ValuePtr& info, const ValuePtr& layers) {
  const auto* of_source = info ? pytorch::Entries(*info) : nullptr;
  std::vector<Entry> entries = of_source != nullptr ? *of_source : std::vector<Entry>();
  if (!FindEntry(entries, "universal_checkpoint_version")) {
    entries.push_back({MakeText("universal_checkpoint_version"), pytorch::MakeDouble(kInfoVersion)});
  }
  SetEntry(entries, "expert_parameter_patterns", MakeList({MakeText(R"(.*\.experts\.w[123]$)")}));
  SetEntry(entries, "ds_autoep_layers", layers);
  return MakeDict(std::move(entries));
}

ValuePtr PartitionGroups(const std::vector<FlatGroupToWrite>& sub_groups, const ExpertsToWrite& experts,
                         RankInFiles place) {
  std::vector<ValuePtr> groups;
  for (std::size_t s = 0; s < sub_groups.size(); ++s) {
    const FlatGroupToWrite& group = sub_groups[s];
    const std::int64_t own = group.of_experts ? experts.NumberOf(place.tensor_rank, place.partition) : place.partition;
    const auto rank = std::find(group.ranks.begin(), group.ranks.end(), own) - group.ranks.begin();
    std::vector<ValuePtr> ranks;  // As all are counted, tensor-parallel ones first.
    for (std::int64_t other : group.ranks) {
      ranks.push_back(MakeInteger(group.of_experts ? other : experts.NumberOf(place.tensor_rank, other)));
    }
    const std::string name = group.of_experts ? GroupName(experts.ep()) : "replicated";
    groups.push_back(
        MakeDict({{MakeText("sub_group"), MakeInteger(static_cast<std::int64_t>(s))},
                  {MakeText("partition_count"), MakeInteger(std::ssize(group.ranks))},
                  {MakeText("partition_rank"), MakeInteger(rank)},
                  {MakeText("partition_ranks"), MakeList(std::move(ranks))},
                  {MakeText("families"), MakeList({MakeText(group.of_experts ? "autoep_expert" : "replicated")})},
                  {MakeText("group_names"), MakeList({MakeText(name)})}}));
  }
  return MakeList(std::move(groups));
}

namespace {

// The weights of the experts of one expert rank, a file for each; the records by expert and matrix.
std::vector<std::vector<RecordId>> AddFilesOfRank(const TargetRequest& request, const WriteOptions& options,
                                                  const ExpertsToWrite& experts, const ExpertsOfLayer& layer,
                                                  const std::string& folder, const Coordinate& holder,
                                                  TargetFiles& target) {
  std::vector<std::vector<RecordId>> records;
  const std::int64_t tensor_rank = holder.At("tp");
  const std::int64_t expert_rank = holder.At("ep");
  const std::int64_t own = layer.experts / options.ep;
  for (std::int64_t expert = expert_rank * own; expert < (expert_rank + 1) * own; ++expert) {
    ArchiveComposer composer(request.training);
    std::vector<Entry> entries;
    for (const LogicalTensor* tensor : layer.tensors) {
      ValuePtr value = composer.AddTensor(ModuleState(*tensor, options).dtype, {tensor->shape[1], tensor->shape[2]});
      entries.push_back({MakeText(fmt::format("{}.{}", tensor->name, expert)), std::move(value)});
    }
    AddFoldingOfExperts(options, experts, tensor_rank, expert_rank, entries);
    ComposedArchive archive = composer.Compose(MakeDict(std::move(entries)));
    const ExpertOf place{holder.At("pp") * options.tp + tensor_rank, layer.number, expert};
    records.push_back(AddFile(target, folder + "/" + ExpertFileName(place), std::move(archive)));
  }
  return records;
}

}  // namespace

void AddFusedExpertFiles(const TargetRequest& request, const WriteOptions& options, const ExpertsToWrite& experts,
                         const ExpertsOfLayer& layer, const std::string& folder, const Coordinate& coordinate,
                         TargetFiles& target) {
  Coordinate holder = coordinate;
  for (std::int64_t rank = 0; rank < options.ep; ++rank) {
    if (!experts.IsSavedBy(coordinate.At("tp"), rank)) continue;
    holder.at["ep"] = rank;
    const std::vector<std::vector<RecordId>> records =
        AddFilesOfRank(request, options, experts, layer, folder, holder, target);
    for (std::size_t matrix = 0; matrix < layer.tensors.size(); ++matrix) {
      const LogicalTensor& tensor = *layer.tensors[matrix];
      const LogicalTensor::State state = ModuleState(tensor, options);
      const std::int64_t elements = tensor.shape[1] * tensor.shape[2];
      Shard shard;
      shard.tensor = tensor.name;
      shard.kind = tensor.kind;
      shard.coordinate = holder;
      shard.shape = {layer.experts / options.ep, tensor.shape[1], tensor.shape[2]};
      Buffer buffer;
      buffer.dtype = state.dtype;
      buffer.part_elements = std::max<std::int64_t>(1, elements);
      for (const std::vector<RecordId>& of_expert : records) buffer.parts.push_back({of_expert[matrix], 0, elements});
      shard.states = target.storage.Add(BufferSet{{state.name, target.storage.Add(std::move(buffer))}});
      target.storage.shards.push_back(std::move(shard));
    }
  }
}

}  // namespace ucp::deepspeed
