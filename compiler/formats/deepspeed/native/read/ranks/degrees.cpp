#include "compiler/formats/deepspeed/native/read/ranks/degrees.h"

#include <algorithm>
#include <set>

#include "compiler/formats/agreement.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

// How many tensor-parallel ranks the layer files speak of; 0 if there are none.
std::int64_t LayerFileRanks(const CheckpointFiles& files) {
  std::int64_t ranks = 0;
  for (const auto& [place, name] : files.layers) ranks = std::max(ranks, place.tp + 1);
  return ranks;
}

}  // namespace

llvm::Error CheckServed(const CheckpointFiles& files, const std::string& folder) {
  auto refuse = [&](const std::string& found, std::string_view meaning) {
    return Fail(ErrorCode::kUnsupported, "`{}` holds `{}`: {}, which this version does not read yet", folder, found,
                meaning);
  };
  if (!files.other_expert_files.empty()) {
    return refuse(files.other_expert_files.front(), "experts of an older DeepSpeed");
  }
  if (!files.experts.empty() && !files.partitioned_model_states.empty()) {
    return refuse(files.experts.begin()->second, "experts at ZeRO stage 3");
  }
  for (const std::string& name : files.folders) {
    if (!IsCheckpointFileName(name)) continue;
    return Fail(ErrorCode::kBadData, "`{}`: `{}` is a folder, where DeepSpeed has a file of that name", folder, name);
  }
  bool is_offloaded = std::find(files.folders.begin(), files.folders.end(), "offloaded_tensors") != files.folders.end();
  if (is_offloaded) return refuse("offloaded_tensors", "an optimizer that is offloaded to NVMe");
  if (files.optimizer_states.empty() && !files.partitioned_model_states.empty()) {
    return Fail(
        ErrorCode::kBadData,
        "`{}` is of stage 3 and holds no `*_optim_states.pt`, which under stage 3 also have the weights: saving it was "
        "interrupted",
        folder);
  }
  return llvm::Error::success();
}

llvm::Error FindModelFiles(CheckpointFiles& files, const std::string& folder) {
  if (!files.partitioned_model_states.empty() && !files.model_states.empty()) {
    return Fail(ErrorCode::kBadData, "`{}`: `{}` is of stage 3 and `{}` of another stage; remove those that are stale",
                folder, files.partitioned_model_states.begin()->second, files.model_states.begin()->second);
  }
  for (const auto& [place, name] : files.partitioned_model_states) files.model_states.emplace(place.mp, name);
  std::int64_t expected = 0;
  for (const auto& [mp, name] : files.model_states) {
    if (mp == expected++) continue;
    return Fail(ErrorCode::kBadData, "`{}`: `{}` is missing, while there is `{}`", folder,
                ModelStatesName(expected - 1, files), name);
  }
  if (expected > 0) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "`{}`: `{}` is missing", folder, ModelStatesName(0, files));
}

llvm::Error CheckSameDegrees(const std::string& folder, const ModelStates& a, const ModelStates& b) {
  auto text = [](const auto& value) { return value ? fmt::format("{}", *value) : std::string("missing"); };
  for (const auto& [name, field] :
       {std::pair("`mp_world_size`", &ModelStates::mp_world_size), std::pair("`pp_degree`", &ModelStates::pp_degree),
        std::pair("`tp_degree`", &ModelStates::tp_degree)}) {
    UCP_RETURN_IF_ERROR(CheckSameText(folder, name, text(a.*field), a.path, text(b.*field), b.path));
  }
  return llvm::Error::success();
}

llvm::Expected<Degrees> FindDegrees(const CheckpointFiles& files, const std::string& folder,
                                    const std::vector<ModelStates>& states, std::vector<std::string>& remarks) {
  for (const ModelStates& rank : states) UCP_RETURN_IF_ERROR(CheckSameDegrees(folder, states.front(), rank));
  const auto ranks = static_cast<std::int64_t>(states.size());
  const ModelStates& first = states.front();
  const std::int64_t expected = first.mp_world_size.value_or(ranks);
  if (expected > ranks) {
    return Fail(ErrorCode::kBadData,
                "`{}`: `{}` is missing; `mp_world_size` in `{}` is {}, and there are {} such files", folder,
                ModelStatesName(ranks, files), first.path, expected, ranks);
  }
  if (expected != ranks) {
    return Fail(ErrorCode::kBadData,
                "`{}`: there are {} model-states files, and `mp_world_size` in `{}` is {}; remove those that are stale",
                folder, ranks, first.path, expected);
  }
  const std::int64_t layer_ranks = LayerFileRanks(files);
  Degrees degrees;
  degrees.tp = layer_ranks > 0 ? layer_ranks : ranks;
  if (first.pp_degree && first.tp_degree) {
    // Either can be at odds with the files, but not be impossible.
    if (*first.pp_degree < 1 || *first.tp_degree < 1 || ranks % *first.pp_degree != 0) {
      return Fail(ErrorCode::kBadData,
                  "`{}`: `checkpoint_parallel_dimensions` in `{}` says pp_degree {} and tp_degree {}, which {} "
                  "model-parallel ranks cannot have",
                  folder, first.path, *first.pp_degree, *first.tp_degree, ranks);
    }
    const bool is_true = CheckedMultiply(*first.pp_degree, *first.tp_degree) == ranks;
    degrees.tp = is_true ? *first.tp_degree : ranks / *first.pp_degree;
    if (!is_true) {
      remarks.push_back(
          fmt::format("`{}` says pp_degree {} and tp_degree {}, and there are {} model-parallel ranks; its tp_degree "
                      "is not believed "
                      "(with sequence parallelism DeepSpeed writes that degree there)",
                      first.path, *first.pp_degree, *first.tp_degree, ranks));
    }
  }
  degrees.pp = degrees.tp > 0 ? ranks / degrees.tp : 0;
  if (degrees.pp < 1 || degrees.mp() != ranks || (layer_ranks > 0 && layer_ranks != degrees.tp)) {
    return Fail(ErrorCode::kBadData,
                "`{}`: {} model-parallel ranks do not fit a tensor-parallel degree of {} (the layer files speak of {})",
                folder, ranks, degrees.tp, layer_ranks);
  }
  return degrees;
}

llvm::Expected<Partitions> CountPartitions(const CheckpointFiles& files, const std::string& folder, std::int64_t mp) {
  Partitions partitions;
  if (files.optimizer_states.empty()) return partitions;  // Without ZeRO.
  const std::string& example = files.optimizer_states.begin()->second;
  const std::string prefix = example.substr(0, example.find("zero_pp_rank_"));
  for (const auto* kind : {&files.optimizer_states, &files.partitioned_model_states}) {
    for (const auto& [place, name] : *kind) {
      partitions.count = std::max(partitions.count, place.partition + 1);
      if (place.mp < mp) continue;
      return Fail(ErrorCode::kBadData, "`{}`: there is `{}`, and only {} model-parallel ranks", folder, name, mp);
    }
  }
  // A partition number can be anything; the first one that is missing ends the walk.
  for (PartitionOf place; place.mp < mp; ++place.mp) {
    for (place.partition = 0; place.partition < partitions.count; ++place.partition) {
      if (files.optimizer_states.contains(place)) continue;
      std::string absent = fmt::format(
          "`{}`: `{}` is missing; {} model-parallel ranks with {} partitions have {} files, and there are {}", folder,
          OptimizerStatesName(prefix, place), mp, partitions.count, mp * partitions.count,
          files.optimizer_states.size());
      if (!files.partitioned_model_states.empty()) return Fail(ErrorCode::kBadData, "{}", absent);
      return Partitions{1, std::move(absent)};
    }
  }
  return partitions;
}

llvm::Error CheckLayerFiles(const CheckpointFiles& files, const std::string& folder, std::int64_t tp) {
  for (const auto& [place, name] : files.layers) {
    for (std::int64_t rank = 0; rank < tp; ++rank) {
      if (files.layers.contains({place.layer, rank})) continue;
      return Fail(ErrorCode::kBadData, "`{}`: layer {} has `{}`, and no file for tensor-parallel rank {} of {}", folder,
                  place.layer, name, rank, tp);
    }
  }
  return llvm::Error::success();
}

}  // namespace ucp::deepspeed
