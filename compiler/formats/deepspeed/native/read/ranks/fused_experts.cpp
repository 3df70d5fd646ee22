#include "compiler/formats/deepspeed/native/read/ranks/fused_experts.h"

#include <algorithm>

#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/formats/strategy_rules.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

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

llvm::Error CheckStagesHaveFusedExperts(const std::string& folder, const Degrees& degrees,
                                        const std::vector<ModelStates>& states) {
  const auto with = std::find_if(states.begin(), states.end(), [](auto& rank) { return !rank.autoep_layers.empty(); });
  for (std::size_t mp = 0; with != states.end() && mp < states.size(); mp += static_cast<std::size_t>(degrees.tp)) {
    if (!states[mp].autoep_layers.empty()) continue;
    return Fail(ErrorCode::kBadData,
                "`{}`: `{}` has layers whose experts AutoEP spreads (`ds_autoep_layers`), and `{}` has none; DeepSpeed "
                "starts no run with AutoEP of which a stage has none",
                folder, with->path, states[mp].path);
  }
  return llvm::Error::success();
}

llvm::Expected<FusedExperts> FusedExperts::Read(SourceArchives& archives, const CheckpointFiles& files,
                                                const std::string& folder, const Degrees& degrees,
                                                const std::vector<ModelStates>& states, std::int64_t partitions) {
  FusedExperts experts;
  const bool is_any =
      std::any_of(states.begin(), states.end(), [](const ModelStates& rank) { return !rank.autoep_layers.empty(); });
  if (!is_any) {
    for (const ModelStates& rank : states) UCP_RETURN_IF_ERROR(CheckNoFolding(rank.folding, rank.path));
    return experts;
  }
  UCP_RETURN_IF_ERROR(experts.FindStages(folder, degrees, states));
  UCP_RETURN_IF_ERROR(experts.CheckDegrees(folder));
  experts.is_whole_ = files.optimizer_states.empty();  // Then `folding` alone says how many ranks there were.
  experts.partitions_ = partitions;
  if (experts.is_whole_) {
    experts.partitions_ = degrees.tp > 1 ? states.front().folding->partition_count : experts.ep_;
  }
  const auto ranks = CheckedMultiply(experts.partitions_, degrees.tp);
  if (!ranks || *ranks < 1 || *ranks > kMostRanks || *ranks % experts.ep_ != 0) {
    return Fail(ErrorCode::kBadData,
                "`{}`: the experts are spread over {} ranks, and {} has {} partitions on each "
                "of {} tensor-parallel ranks",
                folder, experts.ep_, experts.is_whole_ && degrees.tp > 1 ? "`folding`" : "the checkpoint",
                experts.partitions_, degrees.tp);
  }
  UCP_RETURN_IF_ERROR(experts.CheckRanks(folder, states));
  if (files.partitioned_model_states.empty()) UCP_RETURN_IF_ERROR(experts.ReadFiles(archives, files, folder));
  experts.FindLayersOfTensors();
  UCP_RETURN_IF_ERROR(experts.CheckShapesOfMaps(folder));
  return experts;
}

llvm::Error FusedExperts::FindStages(const std::string& folder, const Degrees& degrees,
                                     const std::vector<ModelStates>& states) {
  const ModelStates& first = states.front();
  if (degrees.tp > 1 && degrees.pp > 1) {
    return Fail(ErrorCode::kUnsupported,
                "`{}`: AutoEP spreads the experts, and there are {} tensor-parallel ranks in each of {} pipeline "
                "stages, which DeepSpeed does not run together",
                folder, degrees.tp, degrees.pp);
  }
  if (degrees.tp > 1 && !first.folding) {
    return Fail(
        ErrorCode::kUnsupported,
        "`{}`: AutoEP spreads the experts, there are {} tensor-parallel ranks, and `{}` has no entry `folding`; "
        "how such ranks share experts out is then not known",
        folder, degrees.tp, first.path);
  }
  tensor_ranks_ = degrees.tp;
  data_first_ = IsDataFirst(first);
  for (std::size_t mp = 0; mp < states.size(); mp += static_cast<std::size_t>(tensor_ranks_)) {
    stages_.push_back({states[mp].autoep_layers, states[mp].path});
  }
  return llvm::Error::success();
}

// All layers are spread over as many ranks, and each is of one stage.
llvm::Error FusedExperts::CheckDegrees(const std::string& folder) {
  const AutoEpLayer& first = stages_.front().layers.front();
  ep_ = first.ep();
  std::map<std::string, const Stage*> known;
  for (const Stage& stage : stages_) {
    for (const AutoEpLayer& layer : stage.layers) {
      if (layer.ep() != ep_) {
        return Fail(
            ErrorCode::kUnsupported,
            "`{}`: `{}` spreads experts over {} ranks in one layer and over {} in another (`{}` in `{}`), which this "
            "version does not read",
            folder, stages_.front().path, ep_, layer.ep(), layer.prefix, stage.path);
      }
      const auto [other, is_new] = known.emplace(layer.prefix, &stage);
      if (is_new) continue;
      return Fail(ErrorCode::kBadData, "`{}`: `ds_autoep_layers` has `{}` in `{}` and in `{}`, of two pipeline stages",
                  folder, layer.prefix, other->second->path, stage.path);
    }
  }
  return llvm::Error::success();
}

// Every model-parallel rank says the same of its stage as the first one of it.
llvm::Error FusedExperts::CheckRanks(const std::string& folder, const std::vector<ModelStates>& states) {
  const std::int64_t ranks = std::ssize(states);
  if (!is_whole_) {
    for (std::int64_t mp = 0; mp < ranks; mp += tensor_ranks_) {
      UCP_ASSIGN_OR_RETURN(FusedTensors listed,
                           ListTensors(folder, states[static_cast<std::size_t>(mp)], StageOf(mp), ExpertRankAt(mp, 0)));
      tensors_.merge(listed);
    }
  }
  FindLayersOfTensors();
  for (std::int64_t mp = 0; mp < ranks; ++mp) {
    const ModelStates& rank = states[static_cast<std::size_t>(mp)];
    const ModelStates& first = states[static_cast<std::size_t>(mp - mp % tensor_ranks_)];
    UCP_RETURN_IF_ERROR(CheckPartition(first, rank, mp, 0));
    if (!is_whole_ && &rank != &first) UCP_RETURN_IF_ERROR(CheckTensorRank(folder, rank, mp));
  }
  return llvm::Error::success();
}

void FusedExperts::FindLayersOfTensors() {
  for (const auto& [name, tensor] : tensors_) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      for (std::size_t l = 0; l < stages_[s].layers.size(); ++l) {
        if (stages_[s].layers[l].Holds(name)) layer_of_.try_emplace(name, LayerOfStage{s, l});
      }
    }
  }
}

// An expert has the shape that its layer's affine maps say, where there are some.
llvm::Error FusedExperts::CheckShapesOfMaps(const std::string& folder) const {
  for (const auto& [name, tensor] : tensors_) {
    const auto mapped = LayerOf(name).shapes.find(name);
    if (mapped == LayerOf(name).shapes.end()) continue;
    const std::vector<std::int64_t>&by_map = mapped->second, &listed = tensor.listed.shape;
    if (std::equal(by_map.begin() + 1, by_map.end(), listed.begin() + 1, listed.end())) continue;
    return Fail(
        ErrorCode::kBadData,
        "`{}`: an expert of `{}` has the shape {}, and by its affine map in `{}` (`ds_autoep_layers`) it has {}",
        folder, name, ShapeText({listed.begin() + 1, listed.end()}), stages_[layer_of_.at(name).stage].path,
        ShapeText({by_map.begin() + 1, by_map.end()}));
  }
  return llvm::Error::success();
}

llvm::Expected<FusedExperts::FusedTensors> FusedExperts::ListTensors(const std::string& folder,
                                                                     const ModelStates& states, const Stage& stage,
                                                                     std::int64_t expert_rank) const {
  std::vector<std::pair<NamedShape, TensorKind>> listed;
  for (const auto& group : states.param_shapes) {
    for (const NamedShape& shape : group) listed.emplace_back(shape, TensorKind::kParameter);
  }
  for (const auto& [name, shape] : states.frozen_shapes) {
    listed.emplace_back(NamedShape{name, shape}, TensorKind::kFrozen);
  }
  FusedTensors tensors;
  for (auto& [tensor, kind] : listed) {
    const auto layer = std::find_if(stage.layers.begin(), stage.layers.end(),
                                    [&](const AutoEpLayer& candidate) { return candidate.Holds(tensor.name); });
    if (layer == stage.layers.end()) continue;
    const auto local = std::ssize(layer->places[static_cast<std::size_t>(expert_rank)]);
    if (tensor.shape.empty() || tensor.shape.front() != local) {
      return Fail(ErrorCode::kBadData,
                  "`{}`: `{}` in `{}` has the shape {}, and by `ds_autoep_layers` there are {} experts of expert rank "
                  "{} in it",
                  folder, tensor.name, states.path, ShapeText(tensor.shape), local, expert_rank);
    }
    const std::string name = tensor.name;
    if (tensors.emplace(name, FusedTensor{std::move(tensor), kind, {}}).second) continue;
    return Fail(ErrorCode::kBadData, "`{}`: `{}` stands twice in the lists of shapes in `{}`", folder, name,
                states.path);
  }
  for (const AutoEpLayer& layer : stage.layers) {
    if (std::any_of(tensors.begin(), tensors.end(), [&](const auto& entry) { return layer.Holds(entry.first); })) {
      continue;
    }
    return Fail(ErrorCode::kBadData, "`{}`: `ds_autoep_layers` in `{}` has `{}`, and no list of shapes has its tensors",
                folder, states.path, layer.prefix);
  }
  return tensors;
}

// Of the experts' tensors, every tensor-parallel rank lists its own part, as the first one does.
llvm::Error FusedExperts::CheckTensorRank(const std::string& folder, const ModelStates& states, std::int64_t mp) const {
  const std::int64_t rank = ExpertRankAt(mp, 0);
  UCP_ASSIGN_OR_RETURN(const auto own, ListTensors(folder, states, StageOf(mp), rank));
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
                  StageOf(mp).path, name, rank, expected, states.path, found);
    }
  }
  return llvm::Error::success();
}

Folding FusedExperts::FoldingOf(std::int64_t mp, std::int64_t expert_rank, const std::string& group,
                                std::int64_t count) const {
  return {tensor_ranks_, mp % tensor_ranks_, ep_, expert_rank, group, count, std::nullopt};
}

llvm::Error FusedExperts::CheckOptimizerFile(const std::optional<Folding>& folding, const std::string& path,
                                             std::int64_t mp, std::int64_t partition) const {
  if (!any()) return CheckNoFolding(folding, path);
  Folding expected = FoldingOf(mp, ExpertRankAt(mp, partition), "per_family", partitions_);
  expected.partition_rank = partition;
  return CheckFolding(folding, path, expected, StageOf(mp).path);
}

llvm::Error FusedExperts::CheckExpertFile(const std::optional<Folding>& folding, const std::string& path,
                                          std::int64_t mp, std::int64_t expert_rank) const {
  const std::int64_t sharing = partitions_ * tensor_ranks_ / ep_;
  return CheckFolding(folding, path, FoldingOf(mp, expert_rank, "edp", sharing), StageOf(mp).path);
}

std::int64_t FusedExperts::ExpertRankAt(std::int64_t mp, std::int64_t partition) const {
  const std::int64_t rank = partition * tensor_ranks_ + mp % tensor_ranks_;
  return ExpertRankOf(rank, ep_, partitions_ * tensor_ranks_, data_first_);
}

std::vector<RankInFiles> FusedExperts::RanksOf(std::int64_t expert_rank) const {
  std::vector<RankInFiles> ranks;
  for (std::int64_t rank : RanksWithExperts(expert_rank, ep_, partitions_ * tensor_ranks_, data_first_)) {
    ranks.push_back(PlaceOfRank(rank, tensor_ranks_));
  }
  return ranks;
}

std::set<std::int64_t> FusedExperts::ExpertRanksIn(std::int64_t mp) const {
  std::set<std::int64_t> ranks;
  for (std::int64_t partition = 0; partition < partitions_; ++partition) ranks.insert(ExpertRankAt(mp, partition));
  return ranks;
}

std::vector<NamedShape> FusedExperts::ShapesAt(std::int64_t expert_rank, std::vector<NamedShape> shapes) const {
  for (NamedShape& shape : shapes) {
    if (!Holds(shape.name)) continue;
    shape.shape.front() = std::ssize(LayerOf(shape.name).places[static_cast<std::size_t>(expert_rank)]);
  }
  return shapes;
}

std::vector<std::vector<NamedShape>> FusedExperts::ShapesAt(std::int64_t expert_rank,
                                                            std::vector<std::vector<NamedShape>> groups) const {
  for (std::vector<NamedShape>& group : groups) group = ShapesAt(expert_rank, std::move(group));
  return groups;
}

llvm::Error FusedExperts::CheckPartition(const ModelStates& first, const ModelStates& other, std::int64_t mp,
                                         std::int64_t partition) const {
  auto disagree = [&](const std::string& what) {
    return Fail(ErrorCode::kBadData, "`{}` and `{}`: {}", first.path, other.path, what);
  };
  const std::vector<AutoEpLayer>& layers = StageOf(mp).layers;
  if (other.autoep_layers.size() != layers.size()) {
    return disagree(fmt::format("`ds_autoep_layers` has {} layers in the first and {} in the second", layers.size(),
                                other.autoep_layers.size()));
  }
  const std::int64_t rank = ExpertRankAt(mp, partition);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const AutoEpLayer& layer = other.autoep_layers[i];
    if (layer.prefix != layers[i].prefix || layer.number != layers[i].number || layer.places != layers[i].places) {
      return disagree(fmt::format("`ds_autoep_layers` places the experts of `{}` otherwise", layers[i].prefix));
    }
    if (layer.shapes != layers[i].shapes) {
      return disagree(fmt::format("`ds_autoep_layers` has other shapes in the affine maps of `{}`", layers[i].prefix));
    }
    if (layer.rank.value_or(rank) == rank) continue;
    return Fail(ErrorCode::kBadData,
                "`{}`: `ep_rank` of `{}` is {}, and partition {} of {}{} is of expert rank {}, as "
                "`use_data_before_expert_parallelism` in `ds_config` says",
                other.path, layer.prefix, *layer.rank, partition, partitions_,
                tensor_ranks_ > 1 ? fmt::format(" of tensor-parallel rank {}", mp % tensor_ranks_) : "", rank);
  }
  Folding expected = FoldingOf(mp, rank, "dense_dp", partitions_);
  expected.partition_rank = partition;
  return CheckFolding(other.folding, other.path, expected, first.path);
}

void FusedExperts::AddTo(Inventory& inventory, FamilyState& state) const {
  for (const Stage& stage : stages_) {
    const std::vector<ExpertLayer> layers = LayersInOrder(stage.layers);
    state.expert_layers.insert(state.expert_layers.end(), layers.begin(), layers.end());
    if (!layers.empty()) continue;
    state.expert_layers.clear();  // Those of the other stages do not say where these are.
    break;
  }
  for (const auto& [name, tensor] : tensors_) {
    inventory.expert_places.emplace(name, LayerOf(name).places);
    state.fused_experts.insert(name);
    if (tensor.experts.empty()) continue;
    const std::int64_t first = static_cast<std::int64_t>(layer_of_.at(name).stage) * tensor_ranks_;
    for (std::int64_t mp = first; mp < first + tensor_ranks_; ++mp) {
      for (std::int64_t rank : ExpertRanksIn(mp)) AddShard(inventory.storage, name, mp, rank);
    }
  }
}

void FusedExperts::AddShard(Storage& storage, const std::string& name, std::int64_t mp,
                            std::int64_t expert_rank) const {
  const FusedTensor& tensor = tensors_.at(name);
  Shard shard;
  shard.tensor = name;
  shard.kind = tensor.kind;
  shard.coordinate = PlaceOf(mp, expert_rank);
  shard.coordinate.at["tp"] = mp % tensor_ranks_;
  shard.shape = ShapesAt(expert_rank, {tensor.listed}).front().shape;
  shard.states = storage.Add(BufferSet{{kWeightState, storage.Add(WeightsOf(name, mp, expert_rank))}});
  storage.shards.push_back(std::move(shard));
}

void FusedExperts::FindFrozen(const std::vector<ModelStates>& states) {
  std::set<std::string> trained;
  for (const ModelStates& rank : states) {
    for (const auto& group : rank.param_shapes) {
      for (const NamedShape& parameter : group) trained.insert(parameter.name);
    }
  }
  for (auto& [name, tensor] : tensors_) {
    tensor.kind = trained.contains(name) ? TensorKind::kParameter : TensorKind::kFrozen;
  }
}

}  // namespace ucp::deepspeed
