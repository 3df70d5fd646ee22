// The files of experts' weights, which are there below stage 3 (fused_experts.h).
#include <algorithm>

#include "compiler/formats/deepspeed/native/read/ranks/fused_experts.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

// The contents of the file of an expert's weights beside `folding`.
pytorch::ValuePtr TensorsIn(const SourceArchive& archive) {
  const std::vector<pytorch::Entry>* entries = pytorch::Entries(archive.root());  // None if it is not a dict.
  if (entries == nullptr || !pytorch::Find(archive.root(), "folding")) return archive.archive.root();
  std::vector<pytorch::Entry> others = *entries;
  std::erase_if(others, [](const pytorch::Entry& entry) { return pytorch::AsText(*entry.key) == "folding"; });
  return pytorch::MakeDict(std::move(others));
}

// The tensor that `name` is one expert's part of; empty if it is none of the layer's.
std::string FusedName(const AutoEpLayer& layer, const std::string& name, std::int64_t expert) {
  const std::string suffix = fmt::format(".{}", expert);
  std::string fused = name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : "";
  return layer.Holds(fused) ? fused : "";
}

}  // namespace

void FusedExperts::ListTensorsOfFile(const AutoEpLayer& layer, const ModuleEntries& entries, std::int64_t expert) {
  const bool is_listed =
      std::any_of(tensors_.begin(), tensors_.end(), [&](const auto& entry) { return layer.Holds(entry.first); });
  if (is_listed) return;
  const auto rank = static_cast<std::size_t>(ExpertRankAt(0, 0));
  for (const auto& [name, place] : entries.tensors) {
    const std::string fused = FusedName(layer, name, expert);
    if (fused.empty()) continue;
    std::vector<std::int64_t> shape = place.sizes;
    shape.insert(shape.begin(), std::ssize(layer.places[rank]));
    tensors_.emplace(fused, FusedTensor{{fused, std::move(shape)}, TensorKind::kParameter, {}});
  }
}

llvm::Error FusedExperts::ReadFiles(SourceArchives& archives, const CheckpointFiles& files, const std::string& folder) {
  std::set<ExpertOf> known;
  for (std::int64_t mp = 0; mp < std::ssize(stages_) * tensor_ranks_; ++mp) {
    UCP_RETURN_IF_ERROR(ReadFilesOf(archives, files, folder, mp, known));
  }
  for (const auto& [place, path] : files.experts) {
    if (known.contains(place)) continue;
    const std::int64_t ranks = std::ssize(stages_) * tensor_ranks_;
    if (place.mp >= ranks) {
      return Fail(ErrorCode::kBadData, "`{}`: there is `{}`, and only {} model-parallel ranks", folder, path, ranks);
    }
    return Fail(ErrorCode::kBadData, "`{}`: there is `{}`, and `ds_autoep_layers` in `{}` has no such expert", folder,
                path, StageOf(place.mp).path);
  }
  return is_whole_ ? CheckAllListed(folder) : llvm::Error::success();
}

llvm::Error FusedExperts::ReadFilesOf(SourceArchives& archives, const CheckpointFiles& files, const std::string& folder,
                                      std::int64_t mp, std::set<ExpertOf>& known) {
  for (const AutoEpLayer& layer : StageOf(mp).layers) {
    for (std::int64_t rank : ExpertRanksIn(mp)) {
      for (std::int64_t expert : layer.places[static_cast<std::size_t>(rank)]) {
        const ExpertOf place{mp, layer.number, expert};
        if (!known.insert(place).second) continue;
        const auto file = files.experts.find(place);
        if (file == files.experts.end()) {
          return Fail(ErrorCode::kBadData,
                      "`{}`: `{}` is missing; `{}` has {} experts, as `ds_autoep_layers` in `{}` says", folder,
                      ExpertFileName(place), layer.prefix, layer.experts, StageOf(mp).path);
        }
        UCP_RETURN_IF_ERROR(ReadFile(archives, folder, file->second, layer, {mp, expert}, rank));
      }
    }
  }
  return llvm::Error::success();
}

// Without ZeRO the files alone say which tensors there are.
llvm::Error FusedExperts::CheckAllListed(const std::string& folder) const {
  for (const Stage& stage : stages_) {
    for (const AutoEpLayer& layer : stage.layers) {
      if (std::any_of(tensors_.begin(), tensors_.end(), [&](const auto& entry) { return layer.Holds(entry.first); })) {
        continue;
      }
      return Fail(ErrorCode::kBadData,
                  "`{}`: `ds_autoep_layers` in `{}` has `{}`, and no file of its experts has one of its tensors",
                  folder, stage.path, layer.prefix);
    }
  }
  return llvm::Error::success();
}

llvm::Error FusedExperts::ReadFile(SourceArchives& archives, const std::string& folder, const std::string& path,
                                   const AutoEpLayer& layer, ExpertCopy copy, std::int64_t expert_rank) {
  UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives.Open(path));
  UCP_ASSIGN_OR_RETURN(const std::optional<Folding> folding, ReadFolding(archive.root(), path));
  UCP_RETURN_IF_ERROR(CheckExpertFile(folding, path, copy.mp, expert_rank));
  UCP_ASSIGN_OR_RETURN(ModuleEntries entries, ReadModule(archives, archive, TensorsIn(archive), ""));
  if (is_whole_) ListTensorsOfFile(layer, entries, copy.expert);
  const std::string suffix = fmt::format(".{}", copy.expert);
  std::map<std::string, TensorPlace> found;
  for (auto& [name, place] : entries.tensors) {
    const std::string fused = FusedName(layer, name, copy.expert);
    if (fused.empty()) {
      return Fail(ErrorCode::kBadData, "`{}`: `{}` holds `{}`, which is not a tensor of expert {} of `{}`", folder,
                  path, name, copy.expert, layer.prefix);
    }
    found.emplace(fused, std::move(place));
  }
  for (auto& [name, tensor] : tensors_) {
    if (!layer.Holds(name)) continue;
    const auto place = found.find(name);
    if (place == found.end()) {
      return Fail(ErrorCode::kBadData, "`{}`: `{}` has no tensor `{}{}`", folder, path, name, suffix);
    }
    const std::vector<std::int64_t> shape(tensor.listed.shape.begin() + 1, tensor.listed.shape.end());
    if (place->second.sizes != shape) {
      return Fail(ErrorCode::kBadData, "`{}`: `{}{}` has the shape {} in `{}`, and an expert has {}", folder, name,
                  suffix, ShapeText(place->second.sizes), path, ShapeText(shape));
    }
    const bool is_alike = tensor.experts.empty() || tensor.experts.begin()->second.dtype == place->second.dtype;
    if (!is_alike || !place->second.strides.empty()) {
      return Fail(ErrorCode::kUnsupported,
                  "`{}`: `{}{}` in `{}` is of {}{}, which this version does not join with the other experts", folder,
                  name, suffix, path, Name(place->second.dtype), is_alike ? ", with strides" : "");
    }
    tensor.experts.emplace(copy, std::move(place->second));
  }
  return llvm::Error::success();
}

Buffer FusedExperts::WeightsOf(const std::string& name, std::int64_t mp, std::int64_t expert_rank) const {
  const FusedTensor& tensor = tensors_.at(name);
  const TensorPlace& any = tensor.experts.begin()->second;
  const std::vector<std::int64_t>& own = LayerOf(name).places[static_cast<std::size_t>(expert_rank)];
  Buffer buffer;
  buffer.dtype = any.dtype;
  buffer.part_elements = std::max<std::int64_t>(1, any.elements);
  for (std::int64_t expert : own) {
    const TensorPlace& place = tensor.experts.at({mp, expert});
    buffer.parts.push_back({place.record, place.offset, place.elements});
  }
  if (own.empty()) buffer.parts.push_back({any.record, 0, 0});
  return buffer;
}

// Sorted by name, the tensors of a layer are in the module's order: w1, w2, w3.
std::vector<std::pair<std::string, TensorPlace>> FusedExperts::TensorsOf(std::int64_t mp,
                                                                         std::int64_t expert_rank) const {
  std::map<std::int64_t, std::vector<std::pair<std::string, TensorPlace>>> by_layer;
  for (const auto& [name, tensor] : tensors_) {
    if (&stages_[layer_of_.at(name).stage] != &StageOf(mp)) continue;
    const AutoEpLayer& layer = LayerOf(name);
    const std::vector<std::int64_t>& own = layer.places[static_cast<std::size_t>(expert_rank)];
    TensorPlace place = own.empty() ? tensor.experts.begin()->second : tensor.experts.at({mp, own.front()});
    place.elements *= std::ssize(own);
    place.sizes.insert(place.sizes.begin(), std::ssize(own));
    by_layer[layer.number].emplace_back(name, std::move(place));
  }
  std::vector<std::pair<std::string, TensorPlace>> tensors;
  for (auto& [number, of_layer] : by_layer) {
    for (auto& tensor : of_layer) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace ucp::deepspeed
