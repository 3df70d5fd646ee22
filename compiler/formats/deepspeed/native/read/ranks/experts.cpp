#include "compiler/formats/deepspeed/native/read/ranks/experts.h"

#include <algorithm>
#include <set>

#include "compiler/formats/deepspeed/common/expert_ranks.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

// A rank's list of its own experts, by the list that says so.
struct Listed {
  std::string_view list;
  TensorKind kind;
  NamedShape tensor;
};

std::vector<Listed> ListedExperts(const ModelStates& states) {
  std::vector<Listed> listed;
  for (const auto& group : states.param_shapes) {
    for (const NamedShape& shape : group) {
      if (IsExpertName(shape.name)) listed.push_back({"param_shapes", TensorKind::kParameter, shape});
    }
  }
  for (const auto& [name, shape] : states.frozen_shapes) {
    if (IsExpertName(name)) listed.push_back({"frozen_param_shapes", TensorKind::kFrozen, {name, shape}});
  }
  return listed;
}

// Whether an expert has files of two tensor-parallel ranks of its stage, as every one has with expert tensor
// parallelism.
bool HasFilesOfTwoTensorRanks(const CheckpointFiles& files, std::int64_t tp) {
  std::set<ExpertOf> seen;  // With the number of the stage in place of the rank's.
  return std::any_of(files.experts.begin(), files.experts.end(), [&](const auto& entry) {
    const ExpertOf& place = entry.first;
    return !seen.insert({place.mp / tp, place.layer, place.expert}).second;
  });
}

}  // namespace

bool IsExpertName(const std::string& name) { return ParseExpertName(name).has_value(); }

bool IsDataFirst(const ModelStates& states) {
  pytorch::ValuePtr config = FindEntry(states.engine, "ds_config");
  pytorch::ValuePtr value = config ? pytorch::Find(*config, "use_data_before_expert_parallelism") : nullptr;
  return value && pytorch::AsBool(*value).value_or(false);
}

llvm::Expected<Experts> Experts::Read(SourceArchives& archives, const CheckpointFiles& files, const std::string& folder,
                                      const Degrees& degrees, const std::vector<ModelStates>& states,
                                      std::int64_t partitions) {
  Experts experts;
  experts.tp_ = degrees.tp;
  if (!files.experts.empty() && !HasFilesOfTwoTensorRanks(files, degrees.tp)) experts.tensor_ranks_ = degrees.tp;
  UCP_RETURN_IF_ERROR(experts.ReadFiles(archives, files, folder, states));
  UCP_RETURN_IF_ERROR(experts.FindDegrees(files, folder, states));
  UCP_RETURN_IF_ERROR(experts.CheckSavingRanks(files, folder, states, partitions));
  UCP_RETURN_IF_ERROR(experts.CheckListed(folder, states));
  return experts;
}

std::optional<std::int64_t> Experts::SaverOfOptimizer(const CheckpointFiles& files, std::int64_t mp,
                                                      std::int64_t expert_rank) const {
  for (std::int64_t rank = FirstOf(mp); rank < FirstOf(mp) + tensor_ranks_; ++rank) {
    if (files.expert_optimizers.contains({rank, expert_rank})) return rank;
  }
  return std::nullopt;
}

ExpertOf Experts::FileOf(const CheckpointFiles& files, std::int64_t mp, std::int64_t layer, std::int64_t expert) const {
  for (std::int64_t rank = FirstOf(mp); rank < FirstOf(mp) + tensor_ranks_; ++rank) {
    if (files.experts.contains({rank, layer, expert})) return {rank, layer, expert};
  }
  return {mp, layer, expert};
}

llvm::Error Experts::ReadFiles(SourceArchives& archives, const CheckpointFiles& files, const std::string& folder,
                               const std::vector<ModelStates>& states) {
  for (const auto& [place, path] : files.experts) {
    const auto mp = static_cast<std::size_t>(place.mp);
    const auto layer = static_cast<std::size_t>(place.layer);
    if (mp < states.size() && layer < states[mp].num_experts.size() && place.expert < states[mp].num_experts[layer]) {
      continue;
    }
    if (mp >= states.size()) {
      return Fail(ErrorCode::kBadData, "`{}`: there is `{}`, and only {} model-parallel ranks", folder, path,
                  states.size());
    }
    return Fail(ErrorCode::kBadData, "`{}`: there is `{}`, and `num_experts` of that rank is [{}]", folder, path,
                fmt::join(states[mp].num_experts, ", "));
  }
  for (std::size_t mp = 0; mp < states.size(); mp += static_cast<std::size_t>(tensor_ranks_)) {
    for (std::size_t l = 0; l < states[mp].num_experts.size(); ++l) {
      for (std::int64_t expert = 0; expert < states[mp].num_experts[l]; ++expert) {
        const ExpertOf place = FileOf(files, static_cast<std::int64_t>(mp), static_cast<std::int64_t>(l), expert);
        const auto file = files.experts.find(place);
        if (file == files.experts.end()) {
          return Fail(ErrorCode::kBadData,
                      "`{}`: `{}` is missing{}; layer {} has {} experts, as `num_experts` in `{}` says", folder,
                      ExpertFileName(place),
                      tensor_ranks_ > 1 ? ", and so are those of the other tensor-parallel ranks" : "", l,
                      states[mp].num_experts[l], states[mp].path);
        }
        UCP_RETURN_IF_ERROR(ReadFile(archives, file->second, folder, place, states[mp].num_experts[l]));
      }
    }
  }
  return llvm::Error::success();
}

llvm::Error Experts::ReadFile(SourceArchives& archives, const std::string& path, const std::string& folder,
                              ExpertOf place, std::int64_t experts) {
  UCP_ASSIGN_OR_RETURN(SourceArchive archive, archives.Open(path));
  UCP_ASSIGN_OR_RETURN(ModuleEntries entries, ReadModule(archives, archive, archive.archive.root(), ""));
  for (const auto& extra : entries.extras) {
    remarks_.push_back(fmt::format("{} in `{}` is not a tensor and is not carried", pytorch::Print(*extra.key), path));
  }
  for (auto& [name, tensor] : entries.tensors) {
    const auto parsed = ParseExpertName(name);
    if (!parsed || parsed->expert != place.expert) {
      return Fail(ErrorCode::kBadData, "`{}`: `{}` holds `{}`, which is not a tensor of expert {}", folder, path, name,
                  place.expert);
    }
    Layer& known = layers_[{FirstOf(place.mp), parsed->layer}];
    known.number = place.layer;
    known.experts = experts;
    known.order.push_back(name);
    known.tensors.emplace(name, std::pair(std::move(tensor), path));
  }
  return llvm::Error::success();
}

llvm::Error Experts::FindDegrees(const CheckpointFiles& files, const std::string& folder,
                                 const std::vector<ModelStates>& states) {
  for (auto& [place, layer] : layers_) {
    while (files.optimizer_states.empty() && SaverOfOptimizer(files, place.first, layer.ep)) ++layer.ep;
    if (layer.experts % layer.ep == 0) continue;
    return Fail(ErrorCode::kUnsupported,
                "`{}`: the {} experts `{}*` do not divide over the {} ranks of which there is a file such as `{}`",
                folder, layer.experts, place.second, layer.ep, ExpertOptimizerName(place.first, 0));
  }
  std::map<LayerOfRank, std::int64_t> local;  // How many experts a rank has of each layer.
  for (std::size_t mp = 0; mp < states.size(); ++mp) {
    for (const Listed& listed : ListedExperts(states[mp])) {
      const auto parsed = ParseExpertName(listed.tensor.name);
      std::int64_t& count = local[{FirstOf(static_cast<std::int64_t>(mp)), parsed->layer}];
      count = std::max(count, parsed->expert + 1);
    }
  }
  for (const auto& [layer, count] : local) {
    const auto found = layers_.find(layer);
    const std::string& path = states[static_cast<std::size_t>(layer.first)].path;
    const std::int64_t experts = found == layers_.end() ? 0 : found->second.experts;
    if (experts == 0 || experts % count != 0) {
      return Fail(ErrorCode::kBadData, "`{}`: `{}` lists {} experts `{}*`, and the files of experts have {}", folder,
                  path, count, layer.second, experts);
    }
    found->second.ep = experts / count;
  }
  return llvm::Error::success();
}

// Of those that have the same experts the first one saves their files. A file of another rank says that ranks are
// counted otherwise than here, and then the optimizer's parts would be put together wrongly.
llvm::Error Experts::CheckSavingRanks(const CheckpointFiles& files, const std::string& folder,
                                      const std::vector<ModelStates>& states, std::int64_t partitions) const {
  if (tensor_ranks_ == 1) return llvm::Error::success();
  const bool data_first = IsDataFirst(states.front());
  if (data_first && files.optimizer_states.empty()) return llvm::Error::success();  // How many ranks is not known.
  for (const auto& [place, layer] : layers_) {
    const std::int64_t ranks = std::max(layer.ep, partitions * tensor_ranks_);
    for (std::int64_t expert = 0; expert < layer.experts; ++expert) {
      const std::int64_t expert_rank = expert / layer.local();
      const std::int64_t first = RanksWithExperts(expert_rank, layer.ep, ranks, data_first).front();
      const std::int64_t saving = PlaceOfRank(first, tensor_ranks_).tensor_rank;
      const ExpertOf found = FileOf(files, place.first, layer.number, expert);
      if (found.mp == place.first + saving) continue;
      return Fail(ErrorCode::kUnsupported,
                  "`{}`: `{}` is of tensor-parallel rank {}, and as DeepSpeed counts the {} ranks that share whole "
                  "experts out, rank {} saves expert {}; this run counts them otherwise, and how its optimizer is cut "
                  "is not known",
                  folder, files.experts.at(found), found.mp - place.first, ranks, saving, expert);
    }
  }
  return llvm::Error::success();
}

Coordinate Experts::PlaceOf(std::int64_t mp, std::int64_t expert_rank) const {
  Coordinate place{{{"pp", mp / tp_}, {"ep", expert_rank}}};
  if (tensor_ranks_ == 1) place.at["tp"] = mp % tp_;
  return place;
}

std::int64_t Experts::ep() const {
  std::int64_t largest = 1;
  for (const auto& [place, layer] : layers_) largest = std::max(largest, layer.ep);
  return largest;
}

std::vector<ExpertLayer> Experts::Layers() const {
  std::map<std::pair<std::int64_t, std::int64_t>, ExpertLayer> sorted;
  for (const auto& [place, layer] : layers_) {
    if (place.first % tp_ == 0) sorted[{place.first, layer.number}] = {place.second, layer.experts};
  }
  std::vector<ExpertLayer> all;
  for (auto& [place, layer] : sorted) all.push_back(std::move(layer));
  return all;
}

llvm::Expected<std::int64_t> Experts::DegreeOf(std::int64_t mp, const std::vector<NamedShape>& group) const {
  const NamedShape* first = nullptr;
  std::int64_t degree = 1;
  for (const NamedShape& parameter : group) {
    const Layer& layer = layers_.at({FirstOf(mp), ParseExpertName(parameter.name)->layer});
    if (first == nullptr) {
      first = &parameter;
      degree = layer.ep;
    } else if (layer.ep != degree) {
      return Fail(
          ErrorCode::kBadData,
          "`{}` and `{}` are in one group of the optimizer, and the experts of one are spread over {} ranks and "
          "those of the other over {}",
          first->name, parameter.name, degree, layer.ep);
    }
  }
  return degree;
}

llvm::Error Experts::CheckListed(const std::string& folder, const std::vector<ModelStates>& states) {
  for (std::size_t mp = 0; mp < states.size(); ++mp) {
    for (const Listed& listed : ListedExperts(states[mp])) {
      const std::int64_t number = FirstOf(static_cast<std::int64_t>(mp));
      const Layer& layer = layers_.at({number, ParseExpertName(listed.tensor.name)->layer});
      for (std::int64_t rank = 0; rank < layer.ep; ++rank) {
        const std::string name = NameInModel(number, listed.tensor.name, rank);
        const auto found = layer.tensors.find(name);
        if (found == layer.tensors.end()) {
          return Fail(ErrorCode::kBadData,
                      "`{}`: no file has the tensor `{}`; `{}` in `{}` lists it as `{}` of expert rank {}", folder,
                      name, listed.list, states[mp].path, listed.tensor.name, rank);
        }
        if (found->second.first.sizes != listed.tensor.shape) {
          return Fail(ErrorCode::kBadData, "`{}`: `{}` has the shape [{}] in `{}`, and [{}] in `{}` of `{}`", folder,
                      name, fmt::join(found->second.first.sizes, ", "), found->second.second,
                      fmt::join(listed.tensor.shape, ", "), listed.list, states[mp].path);
        }
        kinds_[{number, name}] = listed.kind;
      }
    }
    // Buffers are listed by the names of the first rank, and have no shapes there.
    for (const auto& [place, layer] : layers_) {
      for (const auto& [name, tensor] : layer.tensors) {
        const auto parsed = ParseExpertName(name);
        if (place.first == static_cast<std::int64_t>(mp) &&
            states[mp].buffer_names.contains(parsed->With(parsed->expert % layer.local()))) {
          kinds_[{place.first, name}] = TensorKind::kBuffer;
        }
      }
    }
  }
  return llvm::Error::success();
}

std::string Experts::NameInModel(std::int64_t mp, const std::string& local, std::int64_t expert_rank) const {
  const auto parsed = ParseExpertName(local);
  const auto layer = parsed ? layers_.find({FirstOf(mp), parsed->layer}) : layers_.end();
  if (layer == layers_.end()) return local;
  return parsed->With(expert_rank * layer->second.local() + parsed->expert);
}

std::vector<std::pair<std::string, TensorPlace>> Experts::TensorsOf(std::int64_t mp, std::int64_t expert_rank) const {
  std::map<std::int64_t, const Layer*> sorted;
  for (const auto& [place, layer] : layers_) {
    if (place.first == FirstOf(mp)) sorted.emplace(layer.number, &layer);
  }
  std::vector<std::pair<std::string, TensorPlace>> tensors;
  for (const auto& [number, layer] : sorted) {
    for (const std::string& name : layer->order) {
      const auto parsed = ParseExpertName(name);
      if (parsed->expert / layer->local() != expert_rank) continue;
      tensors.emplace_back(parsed->With(parsed->expert % layer->local()), layer->tensors.at(name).first);
    }
  }
  return tensors;
}

void Experts::AddShards(SourceArchives& archives, Storage& storage) const {
  for (const auto& [place, layer] : layers_) {
    for (const auto& [name, tensor] : layer.tensors) {
      const auto& [mp, prefix] = place;
      const auto kind = kinds_.find({mp, name});
      Shard shard;
      shard.tensor = name;
      shard.kind = kind == kinds_.end() ? TensorKind::kFrozen : kind->second;
      shard.coordinate = PlaceOf(mp, ParseExpertName(name)->expert / layer.local());
      shard.shape = tensor.first.sizes;
      shard.strides = tensor.first.strides;
      shard.base = tensor.first.offset;
      shard.states = archives.BuffersOf(tensor.first, kWeightState);
      storage.shards.push_back(std::move(shard));
    }
  }
}

}  // namespace ucp::deepspeed
