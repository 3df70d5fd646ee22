#include "runtime/formats/deepspeed/read/fused_experts.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "runtime/formats/pytorch/value_access.h"
#include "runtime/formats/strategy_rules.h"

namespace ucp::deepspeed {
namespace {

std::string ShapeText(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

llvm::Error CheckNoFolding(const std::optional<Folding>& folding, const std::string& path) {
  if (!folding) return llvm::Error::success();
  return Fail(
      ErrorCode::kBadData,
      "`{}` has an entry `folding`, as files of experts that AutoEP spreads have beside tensor parallelism, and "
      "no model-states file has `ds_autoep_layers`",
      path);
}

}  // namespace

bool IsFusedExpertName(const ModelStates& states, const std::string& name) {
  return std::any_of(states.autoep_layers.begin(), states.autoep_layers.end(),
                     [&](const AutoEpLayer& layer) { return layer.Holds(name); });
}

llvm::Expected<FusedExperts> FusedExperts::Read(SourceArchives& archives, const CheckpointFiles& files,
                                                const std::string& folder, const Degrees& degrees,
                                                const std::vector<ModelStates>& states, std::int64_t partitions) {
  FusedExperts experts;
  const ModelStates& first = states.front();
  experts.layers_ = first.autoep_layers;
  if (!experts.any()) {
    for (const ModelStates& rank : states) UCP_RETURN_IF_ERROR(CheckNoFolding(rank.folding, rank.path));
    return experts;
  }
  if (degrees.pp > 1) {
    return Fail(ErrorCode::kUnsupported,
                "`{}`: AutoEP spreads the experts, and there are {} pipeline stages, which this version does not read "
                "together",
                folder, degrees.pp);
  }
  if (degrees.tp > 1 && !first.folding) {
    return Fail(
        ErrorCode::kUnsupported,
        "`{}`: AutoEP spreads the experts, there are {} tensor-parallel ranks, and `{}` has no entry `folding`; "
        "how such ranks share experts out is then not known",
        folder, degrees.tp, first.path);
  }
  experts.layers_from_ = first.path;
  experts.ep_ = experts.layers_.front().ep();
  experts.data_first_ = IsDataFirst(first);
  experts.tensor_ranks_ = degrees.tp;
  experts.is_whole_ = files.optimizer_states.empty();  // Then `folding` alone says how many ranks there were.
  experts.partitions_ =
      experts.is_whole_ ? (degrees.tp > 1 ? first.folding->partition_count : experts.ep_) : partitions;
  for (const AutoEpLayer& layer : experts.layers_) {
    if (layer.ep() == experts.ep_) continue;
    return Fail(
        ErrorCode::kUnsupported,
        "`{}`: `{}` spreads experts over {} ranks in one layer and over {} in another (`{}`), which this version "
        "does not read",
        folder, first.path, experts.ep_, layer.ep(), layer.prefix);
  }
  const auto ranks = CheckedMultiply(experts.partitions_, degrees.tp);
  if (!ranks || *ranks < 1 || *ranks > kMostRanks || *ranks % experts.ep_ != 0) {
    return Fail(ErrorCode::kBadData,
                "`{}`: the experts are spread over {} ranks, and {} has {} partitions on each "
                "of {} tensor-parallel ranks",
                folder, experts.ep_, experts.is_whole_ && degrees.tp > 1 ? "`folding`" : "the checkpoint",
                experts.partitions_, degrees.tp);
  }
  if (!experts.is_whole_) {
    UCP_ASSIGN_OR_RETURN(experts.tensors_, experts.ListTensors(folder, first, experts.ExpertRankAt(0, 0)));
  }
  experts.FindLayersOfTensors();
  for (std::int64_t t = 0; t < degrees.tp; ++t) {
    const ModelStates& rank = states[static_cast<std::size_t>(t)];
    UCP_RETURN_IF_ERROR(experts.CheckPartition(first, rank, t, 0));
    if (!experts.is_whole_) UCP_RETURN_IF_ERROR(experts.CheckTensorRank(folder, rank, t));
  }
  if (files.partitioned_model_states.empty()) {
    UCP_RETURN_IF_ERROR(experts.ReadFiles(archives, files, folder, first));
  }
  experts.FindLayersOfTensors();
  return experts;
}

void FusedExperts::FindLayersOfTensors() {
  for (const auto& [name, tensor] : tensors_) {
    const auto layer = std::find_if(layers_.begin(), layers_.end(),
                                    [&](const AutoEpLayer& candidate) { return candidate.Holds(name); });
    layer_of_.emplace(name, layer - layers_.begin());
  }
}

llvm::Expected<std::map<std::string, FusedExperts::FusedTensor>> FusedExperts::ListTensors(
    const std::string& folder, const ModelStates& states, std::int64_t expert_rank) const {
  std::vector<std::pair<NamedShape, TensorKind>> listed;
  for (const auto& group : states.param_shapes) {
    for (const NamedShape& shape : group) listed.emplace_back(shape, TensorKind::kParameter);
  }
  for (const auto& [name, shape] : states.frozen_shapes) {
    listed.emplace_back(NamedShape{name, shape}, TensorKind::kFrozen);
  }
  std::map<std::string, FusedTensor> tensors;
  for (auto& [tensor, kind] : listed) {
    const auto layer = std::find_if(layers_.begin(), layers_.end(),
                                    [&](const AutoEpLayer& candidate) { return candidate.Holds(tensor.name); });
    if (layer == layers_.end()) continue;
    const auto local = std::ssize(layer->places[static_cast<std::size_t>(expert_rank)]);
    if (tensor.shape.empty() || tensor.shape.front() != local) {
      return Fail(ErrorCode::kBadData,
                  "`{}`: `{}` in `{}` has the shape {}, and by `ds_autoep_layers` there are {} experts of expert rank "
                  "{} in it",
                  folder, tensor.name, states.path, ShapeText(tensor.shape), local, expert_rank);
    }
    const std::string name = tensor.name;
    tensors.emplace(name, FusedTensor{std::move(tensor), kind, {}});
  }
  for (const AutoEpLayer& layer : layers_) {
    if (std::any_of(tensors.begin(), tensors.end(), [&](const auto& entry) { return layer.Holds(entry.first); })) {
      continue;
    }
    return Fail(ErrorCode::kBadData, "`{}`: `ds_autoep_layers` in `{}` has `{}`, and no list of shapes has its tensors",
                folder, states.path, layer.prefix);
  }
  return tensors;
}

// Of the experts' tensors, every tensor-parallel rank lists its own part, as the first one does.
llvm::Error FusedExperts::CheckTensorRank(const std::string& folder, const ModelStates& states,
                                          std::int64_t tensor_rank) const {
  const std::int64_t rank = ExpertRankAt(tensor_rank, 0);
  UCP_ASSIGN_OR_RETURN(const auto own, ListTensors(folder, states, rank));
  auto text = [](const NamedShape& shape, TensorKind kind) {
    return fmt::format("{}{}", ShapeText(shape.shape), kind == TensorKind::kFrozen ? ", frozen" : "");
  };
  for (const auto* names : {&tensors_, &own}) {
    for (const auto& [name, tensor] : *names) {
      const auto here = own.find(name);
      const auto there = tensors_.find(name);
      const std::string expected =
          there == tensors_.end() ? "not there"
                                  : text(ShapesAt(rank, std::vector{there->second.listed}).front(), there->second.kind);
      const std::string found = here == own.end() ? "not there" : text(here->second.listed, here->second.kind);
      if (expected == found) continue;
      return Fail(ErrorCode::kBadData, "`{}`: by `{}`, `{}` of expert rank {} is {}, and by `{}` it is {}", folder,
                  layers_from_, name, rank, expected, states.path, found);
    }
  }
  return llvm::Error::success();
}

Folding FusedExperts::FoldingOf(std::int64_t tensor_rank, std::int64_t expert_rank, const std::string& group,
                                std::int64_t count) const {
  return {tensor_ranks_, tensor_rank, ep_, expert_rank, group, count, std::nullopt};
}

llvm::Error FusedExperts::CheckOptimizerFile(const std::optional<Folding>& folding, const std::string& path,
                                             std::int64_t tensor_rank, std::int64_t partition) const {
  if (!any()) return CheckNoFolding(folding, path);
  Folding expected = FoldingOf(tensor_rank, ExpertRankAt(tensor_rank, partition), "per_family", partitions_);
  expected.partition_rank = partition;
  return CheckFolding(folding, path, expected, layers_from_);
}

llvm::Error FusedExperts::CheckExpertFile(const std::optional<Folding>& folding, const std::string& path,
                                          std::int64_t tensor_rank, std::int64_t expert_rank) const {
  const std::int64_t sharing = partitions_ * tensor_ranks_ / ep_;
  return CheckFolding(folding, path, FoldingOf(tensor_rank, expert_rank, "edp", sharing), layers_from_);
}

std::int64_t FusedExperts::ExpertRankAt(std::int64_t tensor_rank, std::int64_t partition) const {
  return ExpertRankOf(partition * tensor_ranks_ + tensor_rank, ep_, partitions_ * tensor_ranks_, data_first_);
}

std::vector<RankInFiles> FusedExperts::RanksOf(std::int64_t expert_rank) const {
  std::vector<RankInFiles> ranks;
  for (std::int64_t rank : RanksWithExperts(expert_rank, ep_, partitions_ * tensor_ranks_, data_first_)) {
    ranks.push_back(PlaceOfRank(rank, tensor_ranks_));
  }
  return ranks;
}

std::set<std::int64_t> FusedExperts::ExpertRanksIn(std::int64_t tensor_rank) const {
  std::set<std::int64_t> ranks;
  for (std::int64_t partition = 0; partition < partitions_; ++partition) {
    ranks.insert(ExpertRankAt(tensor_rank, partition));
  }
  return ranks;
}

std::vector<NamedShape> FusedExperts::ShapesAt(std::int64_t expert_rank, std::vector<NamedShape> shapes) const {
  for (NamedShape& shape : shapes) {
    const auto layer = layer_of_.find(shape.name);
    if (layer == layer_of_.end()) continue;
    shape.shape.front() = std::ssize(layers_[layer->second].places[static_cast<std::size_t>(expert_rank)]);
  }
  return shapes;
}

std::vector<std::vector<NamedShape>> FusedExperts::ShapesAt(std::int64_t expert_rank,
                                                            std::vector<std::vector<NamedShape>> groups) const {
  for (std::vector<NamedShape>& group : groups) group = ShapesAt(expert_rank, std::move(group));
  return groups;
}

llvm::Error FusedExperts::CheckPartition(const ModelStates& first, const ModelStates& other, std::int64_t tensor_rank,
                                         std::int64_t partition) const {
  auto disagree = [&](const std::string& what) {
    return Fail(ErrorCode::kBadData, "`{}` and `{}`: {}", first.path, other.path, what);
  };
  if (other.autoep_layers.size() != layers_.size()) {
    return disagree(fmt::format("`ds_autoep_layers` has {} layers in the first and {} in the second", layers_.size(),
                                other.autoep_layers.size()));
  }
  const std::int64_t rank = ExpertRankAt(tensor_rank, partition);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const AutoEpLayer& layer = other.autoep_layers[i];
    if (layer.prefix != layers_[i].prefix || layer.number != layers_[i].number || layer.places != layers_[i].places) {
      return disagree(fmt::format("`ds_autoep_layers` places the experts of `{}` otherwise", layers_[i].prefix));
    }
    if (layer.rank.value_or(rank) == rank) continue;
    return Fail(ErrorCode::kBadData,
                "`{}`: `ep_rank` of `{}` is {}, and partition {} of {}{} is of expert rank {}, as "
                "`use_data_before_expert_parallelism` in `ds_config` says",
                other.path, layer.prefix, *layer.rank, partition, partitions_,
                tensor_ranks_ > 1 ? fmt::format(" of tensor-parallel rank {}", tensor_rank) : "", rank);
  }
  Folding expected = FoldingOf(tensor_rank, rank, "dense_dp", partitions_);
  expected.partition_rank = partition;
  return CheckFolding(other.folding, other.path, expected, first.path);
}

void FusedExperts::AddTo(Inventory& inventory, TrainingState& training) const {
  if (any()) training.expert_layers = LayersInOrder(layers_);
  for (const auto& [name, tensor] : tensors_) {
    inventory.expert_places.emplace(name, layers_[layer_of_.at(name)].places);
    training.fused_experts.insert(name);
    if (tensor.experts.empty()) continue;
    for (std::int64_t t = 0; t < tensor_ranks_; ++t) {
      for (std::int64_t rank : ExpertRanksIn(t)) AddShard(inventory.storage, name, t, rank);
    }
  }
}

void FusedExperts::AddShard(Storage& storage, const std::string& name, std::int64_t tensor_rank,
                            std::int64_t expert_rank) const {
  const FusedTensor& tensor = tensors_.at(name);
  Shard shard;
  shard.tensor = name;
  shard.kind = tensor.kind;
  shard.coordinate = PlaceOf(expert_rank);
  shard.coordinate.at["tp"] = tensor_rank;
  shard.shape = ShapesAt(expert_rank, {tensor.listed}).front().shape;
  shard.states = storage.Add(BufferSet{{kWeightState, storage.Add(WeightsOf(name, tensor_rank, expert_rank))}});
  storage.shards.push_back(std::move(shard));
}

void FusedExperts::FindFrozen(const std::vector<std::vector<NamedShape>>& param_shapes) {
  std::set<std::string> trained;
  for (const auto& group : param_shapes) {
    for (const NamedShape& parameter : group) trained.insert(parameter.name);
  }
  for (auto& [name, tensor] : tensors_) {
    tensor.kind = trained.contains(name) ? TensorKind::kParameter : TensorKind::kFrozen;
  }
}

}  // namespace ucp::deepspeed
