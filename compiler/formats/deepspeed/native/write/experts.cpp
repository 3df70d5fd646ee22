#include "compiler/formats/deepspeed/native/write/experts.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "compiler/formats/archive_composer.h"
#include "compiler/formats/deepspeed/common/expert_groups.h"
#include "compiler/formats/deepspeed/common/family_state.h"
#include "compiler/formats/deepspeed/common/file_names.h"
#include "compiler/formats/deepspeed/native/write/fused_experts.h"
#include "compiler/formats/deepspeed/native/write/module.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

// Without ZeRO, the order of what a file holds says which parameter of a group is which (zero0_names.h).
std::vector<const LogicalTensor*> InOrderOfGroups(const TargetRequest& request) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (const OptimizerGroup& group : request.training.groups) {
    for (const std::string& name : group.parameters) places.emplace(name, places.size());
  }
  std::vector<std::pair<std::size_t, const LogicalTensor*>> placed;
  for (const LogicalTensor& tensor : request.tensors) {
    auto found = places.find(tensor.name);
    placed.emplace_back(found == places.end() ? places.size() : found->second, &tensor);
  }
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const LogicalTensor*> tensors;
  for (const auto& [place, tensor] : placed) tensors.push_back(tensor);
  return tensors;
}

}  // namespace

llvm::Expected<ExpertsToWrite> ExpertsToWrite::Find(const TargetRequest& request, const WriteOptions& options) {
  ExpertsToWrite experts(request, options);
  UCP_RETURN_IF_ERROR(experts.FindLayers());
  UCP_RETURN_IF_ERROR(experts.FindTensorRanks());
  UCP_RETURN_IF_ERROR(experts.CheckDegrees());
  UCP_RETURN_IF_ERROR(experts.CheckPlaces());
  return experts;
}

llvm::Error ExpertsToWrite::FindLayers() {
  for (const auto& [prefix, count] : ExpertCounts(request_->tensors)) layers_[prefix] = {prefix, 0, count, {}};
  if (are_fused()) {
    if (any()) {
      return Fail(
          ErrorCode::kUnsupported,
          "`{}*` are experts of DeepSpeed's MoE layer, and `{}` has those that AutoEP spreads: models with both "
          "are not written",
          layers_.begin()->first, *StateOf(request_->training).fused_experts.begin());
    }
    UCP_ASSIGN_OR_RETURN(layers_, FindFusedLayers(*request_));
  } else if (any()) {
    for (const LogicalTensor* tensor : InOrderOfGroups(*request_)) {
      if (auto parsed = ParseExpertName(tensor->name)) layers_.at(parsed->layer).tensors.push_back(tensor);
    }
  }
  return llvm::Error::success();
}

bool ExpertsToWrite::IsExpert(const std::string& name) const {
  return are_fused() ? StateOf(request_->training).fused_experts.contains(name)
                     : any() && ParseExpertName(name).has_value();
}

llvm::Error ExpertsToWrite::FindTensorRanks() {
  if (!any()) {
    if (!options_->expert_tp) return llvm::Error::success();
    return Fail(ErrorCode::kUsage, "expert_tp={}: the model has no experts of DeepSpeed's MoE layer",
                *options_->expert_tp);
  }
  if (are_fused()) {
    tensor_ranks_ = options_->tp;
    if (!options_->expert_tp.value_or(false)) return llvm::Error::success();
    return Fail(ErrorCode::kUsage, "expert_tp=true: DeepSpeed's AutoEP keeps every expert whole");
  }
  const LogicalTensor* cut = nullptr;
  for (const auto& [prefix, layer] : layers_) {
    for (const LogicalTensor* tensor : layer.tensors) {
      const auto places = CoordinatesOf(*request_->layout.Find(tensor->name), request_->layout.mesh);
      if (options_->tp > 1 && places.front().at.contains("tp")) cut = tensor;
    }
  }
  const bool has_parts = options_->expert_tp.value_or(cut != nullptr);
  tensor_ranks_ = has_parts ? 1 : options_->tp;
  if (has_parts || cut == nullptr) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "expert_tp=false: {} cuts `{}` over the tensor-parallel ranks",
              request_->layout.Find(cut->name)->declared_at, cut->name);
}

std::string_view ExpertsToWrite::KindOfRanks() const {
  return tensor_ranks_ > 1 ? "tensor-parallel and data-parallel" : "data-parallel";
}

llvm::Error ExpertsToWrite::CheckCopies() const {
  if (options_->edp.value_or(sharing() / ep()) == sharing() / ep()) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "`edp={}`: of {} {} ranks, {} have the same experts with ep={}", *options_->edp,
              sharing(), KindOfRanks(), sharing() / ep(), ep());
}

// Every rank looks for the files of its experts under its own tensor-parallel rank, and only the first of those that
// have the same experts saves them. With AutoEP each saves its own.
llvm::Error ExpertsToWrite::CheckSharing() const {
  if (are_fused()) return llvm::Error::success();
  for (std::int64_t rank = 0; rank < sharing(); ++rank) {
    const std::int64_t tensor_rank = PlaceOfRank(rank, tensor_ranks_).tensor_rank;
    if (IsSavedBy(tensor_rank, ExpertRankOf(rank))) continue;
    return Fail(ErrorCode::kUnsupported,
                "ep={}: whole experts, shared out by {} tensor-parallel and {} data-parallel ranks{}, are lost to "
                "DeepSpeed itself: the first rank that has an expert saves it under its own tensor-parallel rank, and "
                "ranks with another one do not find it; take a multiple of tp{}, or convert to `universal`",
                ep(), options_->tp, options_->dp, options_->data_before_experts ? " (data_before_experts=true)" : "",
                options_->data_before_experts ? " and data_before_experts=false" : "");
  }
  return llvm::Error::success();
}

llvm::Error ExpertsToWrite::CheckDegrees() const {
  if (!any()) {
    if (ep() == 1) return CheckCopies();
    return Fail(ErrorCode::kUsage, "ep={}: the model has no experts of DeepSpeed's MoE layer to spread over ranks",
                ep());
  }
  if (sharing() % ep() != 0) {
    return Fail(ErrorCode::kUsage, "ep={}: {} {} ranks do not divide into groups that share the experts out", ep(),
                sharing(), KindOfRanks());
  }
  UCP_RETURN_IF_ERROR(CheckCopies());
  UCP_RETURN_IF_ERROR(CheckSharing());
  for (const auto& [prefix, layer] : layers_) {
    const bool is_known =
        std::any_of(StateOf(request_->training).expert_layers.begin(), StateOf(request_->training).expert_layers.end(),
                    [&](const ExpertLayer& known) { return known.prefix == prefix && known.experts == layer.experts; });
    if (!is_known) {
      return Fail(ErrorCode::kUnsupported,
                  "the source does not say the order of its layers with experts (`{}*` is one of them); convert from "
                  "the native checkpoint that it was made of",
                  prefix);
    }
    if (layer.experts % ep() == 0) continue;
    return Fail(ErrorCode::kUsage, "ep={}: the {} experts of `{}*` do not divide over so many ranks", ep(),
                layer.experts, prefix);
  }
  for (std::int64_t stage = 0; stage < options_->pp; ++stage) {
    if (!LayersOf(stage).empty()) continue;
    return Fail(ErrorCode::kUnsupported, "pp={}: stage {} has no layer with experts, and {}", options_->pp, stage,
                are_fused() ? "DeepSpeed's AutoEP does not start where it finds none"
                            : "the ranks of the others would wait for its forever when DeepSpeed makes their groups");
  }
  return llvm::Error::success();
}

llvm::Error ExpertsToWrite::CheckPlaces() const {
  for (const auto& [prefix, layer] : layers_) {
    if (are_fused()) UCP_RETURN_IF_ERROR(CheckFusedPlaces(*request_, ep(), layer));
    for (const LogicalTensor* tensor : layer.tensors) {
      const TensorLayout& layout = *request_->layout.Find(tensor->name);
      if (!layout.only_at.contains("ep")) continue;
      for (const std::int64_t place : layout.only_at.at("ep")) {
        if (IsHeldAt(tensor->name, place) && layout.only_at.at("ep").size() == 1) continue;
        return Fail(ErrorCode::kUnsupported,
                    "`{}` is at ep={} by {}, and DeepSpeed gives each of {} ranks {} experts in the order of their "
                    "numbers",
                    tensor->name, fmt::join(layout.only_at.at("ep"), ","), layout.declared_at, ep(),
                    layer.experts / ep());
      }
    }
  }
  return llvm::Error::success();
}

bool ExpertsToWrite::IsHeldAt(const std::string& name, std::int64_t expert_rank) const {
  const auto parsed = any() ? ParseExpertName(name) : std::nullopt;
  return !parsed || parsed->expert / (layers_.at(parsed->layer).experts / ep()) == expert_rank;
}

std::string ExpertsToWrite::LocalName(const std::string& name) const {
  const auto parsed = any() ? ParseExpertName(name) : std::nullopt;
  return parsed ? parsed->With(parsed->expert % (layers_.at(parsed->layer).experts / ep())) : name;
}

std::vector<std::int64_t> ExpertsToWrite::RanksOf(std::int64_t expert_rank) const {
  return RanksWithExperts(expert_rank, ep(), sharing(), options_->data_before_experts);
}

std::int64_t ExpertsToWrite::ExpertRankOf(std::int64_t rank) const {
  return deepspeed::ExpertRankOf(rank, ep(), sharing(), options_->data_before_experts);
}

std::int64_t ExpertsToWrite::NumberOf(std::int64_t tensor_rank, std::int64_t partition) const {
  return partition * tensor_ranks_ + tensor_rank % tensor_ranks_;
}

bool ExpertsToWrite::IsSavedBy(std::int64_t tensor_rank, std::int64_t expert_rank) const {
  const std::vector<std::int64_t> ranks = RanksOf(expert_rank);
  const auto end = are_fused() ? ranks.end() : std::next(ranks.begin());
  return std::any_of(ranks.begin(), end, [&](std::int64_t rank) {
    return PlaceOfRank(rank, tensor_ranks_).tensor_rank == tensor_rank % tensor_ranks_;
  });
}

std::vector<ExpertsOfLayer> ExpertsToWrite::LayersOf(std::int64_t stage) const {
  std::vector<ExpertsOfLayer> held;
  for (const ExpertLayer& known : StateOf(request_->training).expert_layers) {
    const auto found = layers_.find(known.prefix);
    if (found == layers_.end()) continue;
    const TensorLayout& layout = *request_->layout.Find(found->second.tensors.front()->name);
    if (!layout.stages || std::find(layout.stages->begin(), layout.stages->end(), stage) != layout.stages->end()) {
      held.push_back(found->second);
      held.back().number = std::ssize(held) - 1;
    }
  }
  return held;
}

std::vector<std::int64_t> ExpertsToWrite::CountsOf(std::int64_t stage) const {
  std::vector<std::int64_t> counts;
  for (const ExpertsOfLayer& layer : LayersOf(stage)) counts.push_back(layer.experts);
  return counts;
}

llvm::Error ExpertsToWrite::AddFiles(const std::string& folder, const Coordinate& coordinate,
                                     TargetFiles& target) const {
  for (const ExpertsOfLayer& layer : LayersOf(coordinate.At("pp"))) {
    if (!are_fused()) {
      UCP_RETURN_IF_ERROR(AddFilesOf(layer, folder, coordinate, target));
    } else if (options_->stage < 3) {
      AddFusedExpertFiles(*request_, *options_, *this, layer, folder, coordinate, target);
    }
  }
  return llvm::Error::success();
}

llvm::Error ExpertsToWrite::AddFilesOf(const ExpertsOfLayer& layer, const std::string& folder,
                                       const Coordinate& coordinate, TargetFiles& target) const {
  ExpertOf place{coordinate.At("pp") * options_->tp + coordinate.At("tp"), layer.number, 0};
  for (place.expert = 0; place.expert < layer.experts; ++place.expert) {
    ArchiveComposer composer(request_->training);
    ModuleToWrite module(*request_, *options_, composer);
    Coordinate holder = coordinate;
    holder.at["ep"] = place.expert / (layer.experts / ep());
    if (!IsSavedBy(coordinate.At("tp"), holder.At("ep"))) continue;
    std::vector<pytorch::Entry> entries;
    for (const LogicalTensor* tensor : layer.tensors) {
      if (ParseExpertName(tensor->name)->expert != place.expert) continue;
      UCP_ASSIGN_OR_RETURN(pytorch::ValuePtr value, module.Add(*tensor, holder));
      entries.push_back({pytorch::MakeText(tensor->name), std::move(value)});
    }
    ComposedArchive archive = composer.Compose(pytorch::MakeDict(std::move(entries)));
    module.AddShards(AddFile(target, folder + "/" + ExpertFileName(place), std::move(archive)), target);
  }
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
