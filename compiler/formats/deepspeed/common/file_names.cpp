#include "compiler/formats/deepspeed/common/file_names.h"

#include <re2/re2.h>

#include "compiler/support/error.h"

namespace ucp::deepspeed {
namespace {

enum class Kind {
  kModelStates,
  kOptimizerStates,
  kLayer,
  kPartitionedModelStates,
  kExpert,
  kExpertOptimizer,
  kOtherExpert,
  kNumberTooLarge,
  kStranger
};

struct ParsedName {
  Kind kind = Kind::kStranger;
  PartitionOf partition;
  LayerOf layer;
  ExpertOf expert;
};

// Numbers have at most nine digits, so that they fit wherever they are used.
ParsedName Parse(const std::string& name) {
  static const RE2 model_states(R"(mp_rank_(\d{1,9})_model_states\.pt)");
  static const RE2 optimizer(R"((?:bf16_|fp16_)?zero_pp_rank_(\d{1,9})_mp_rank_(\d{1,9})_?optim_states\.pt)");
  static const RE2 layer(R"(layer_(\d{1,9})-model_states\.pt)");
  static const RE2 layer_of_rank(R"(layer_(\d{1,9})-model_(\d{1,9})-model_states\.pt)");
  static const RE2 partitioned(R"(zero_pp_rank_(\d{1,9})_mp_rank_(\d{1,9})_model_states\.pt)");
  static const RE2 expert(R"(layer_(\d{1,9})_expert_(\d{1,9})_mp_rank_(\d{1,9})_model_states\.pt)");
  static const RE2 any_number(
      R"(layer_\d+_expert_\d+_mp_rank_\d+_model_states\.pt|expp_rank_\d+_mp_rank_\d+_optim_states\.pt)");
  static const RE2 other_expert(R"((?:layer_\d+_)?expert_.*\.pt|expp_rank_.*\.pt)");
  static const RE2 expert_optimizer(R"(expp_rank_(\d{1,9})_mp_rank_(\d{1,9})_optim_states\.pt)");
  ParsedName parsed;
  if (RE2::FullMatch(name, model_states, &parsed.partition.mp)) {
    parsed.kind = Kind::kModelStates;
  } else if (RE2::FullMatch(name, optimizer, &parsed.partition.partition, &parsed.partition.mp)) {
    parsed.kind = Kind::kOptimizerStates;
  } else if (RE2::FullMatch(name, layer, &parsed.layer.layer) ||
             RE2::FullMatch(name, layer_of_rank, &parsed.layer.layer, &parsed.layer.tp)) {
    parsed.kind = Kind::kLayer;
  } else if (RE2::FullMatch(name, partitioned, &parsed.partition.partition, &parsed.partition.mp)) {
    parsed.kind = Kind::kPartitionedModelStates;
  } else if (RE2::FullMatch(name, expert, &parsed.expert.layer, &parsed.expert.expert, &parsed.expert.mp)) {
    parsed.kind = Kind::kExpert;
  } else if (RE2::FullMatch(name, expert_optimizer, &parsed.expert.expert, &parsed.expert.mp)) {
    parsed.kind = Kind::kExpertOptimizer;
  } else if (RE2::FullMatch(name, any_number)) {
    parsed.kind = Kind::kNumberTooLarge;
  } else if (RE2::FullMatch(name, other_expert)) {
    parsed.kind = Kind::kOtherExpert;
  }
  return parsed;
}

template <typename Key>
llvm::Error AddOnce(std::map<Key, std::string>& files, const Key& key, const std::string& name) {
  auto [entry, added] = files.emplace(key, name);
  if (added) return llvm::Error::success();
  return Fail(ErrorCode::kBadData, "`{}` and `{}` are both the file of the same rank; remove the one that is stale",
              entry->second, name);
}

}  // namespace

llvm::Error AddFileName(CheckpointFiles& files, const std::string& name) {
  ParsedName parsed = Parse(name);
  switch (parsed.kind) {
    case Kind::kModelStates:
      return AddOnce(files.model_states, parsed.partition.mp, name);
    case Kind::kOptimizerStates:
      return AddOnce(files.optimizer_states, parsed.partition, name);
    case Kind::kLayer:
      return AddOnce(files.layers, parsed.layer, name);
    case Kind::kPartitionedModelStates:
      return AddOnce(files.partitioned_model_states, parsed.partition, name);
    case Kind::kExpert:
      return AddOnce(files.experts, parsed.expert, name);
    case Kind::kExpertOptimizer:
      return AddOnce(files.expert_optimizers, std::pair(parsed.expert.mp, parsed.expert.expert), name);
    case Kind::kOtherExpert:
      files.other_expert_files.push_back(name);
      break;
    case Kind::kNumberTooLarge:
      return Fail(ErrorCode::kBadData,
                  "the name of `{}` has a number of ten digits or more, which no rank, layer or expert has; remove it",
                  name);
    case Kind::kStranger:
      if (name.ends_with(".pt")) files.unknown_files.push_back(name);
      break;
  }
  return llvm::Error::success();
}

bool IsCheckpointFileName(const std::string& name) { return Parse(name).kind != Kind::kStranger; }

llvm::Expected<CheckpointFiles> ListCheckpointFiles(ReadableFileSystem& files, const std::string& folder) {
  UCP_ASSIGN_OR_RETURN(std::vector<DirectoryEntry> entries, files.List(folder));
  CheckpointFiles found;
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_directory) {
      found.folders.push_back(entry.name);
    } else if (llvm::Error error = AddFileName(found, entry.name)) {
      return AddContext(std::move(error), fmt::format("`{}`", folder));
    }
  }
  return found;
}

std::string ModelStatesName(std::int64_t mp, const CheckpointFiles& files) {
  if (!files.partitioned_model_states.empty()) return PartitionedModelStatesName({mp, 0});
  return fmt::format("mp_rank_{:02}_model_states.pt", mp);
}

std::string PartitionedModelStatesName(PartitionOf place) {
  return fmt::format("zero_pp_rank_{}_mp_rank_{:02}_model_states.pt", place.partition, place.mp);
}

std::string LayerName(LayerOf place, const CheckpointFiles& files) {
  constexpr std::string_view kPart = "-model_";  // Once in each name, and twice with a rank.
  const std::string example = files.layers.empty() ? "" : files.layers.begin()->second;
  if (place.tp == 0 && example.find(kPart) == example.rfind(kPart)) {
    return fmt::format("layer_{:02}-model_states.pt", place.layer);
  }
  return fmt::format("layer_{:02}-model_{:02}-model_states.pt", place.layer, place.tp);
}

std::string ExpertFileName(ExpertOf place) {
  return fmt::format("layer_{}_expert_{}_mp_rank_{:02}_model_states.pt", place.layer, place.expert, place.mp);
}

std::string ExpertOptimizerName(std::int64_t mp, std::int64_t expert_rank) {
  return fmt::format("expp_rank_{}_mp_rank_{:02}_optim_states.pt", expert_rank, mp);
}

std::string OptimizerStatesName(const std::string& prefix, PartitionOf place) {
  return fmt::format("{}zero_pp_rank_{}_mp_rank_{:02}_optim_states.pt", prefix, place.partition, place.mp);
}

}  // namespace ucp::deepspeed
