// The files of a DeepSpeed checkpoint folder, by their names.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/files/readable_file_system.h"

namespace ucp::deepspeed {

// A file of one partition of one model-parallel rank. `partition` is the rank in ZeRO's own group ("pp_rank" in the
// name does not mean pipeline), `mp` the model-parallel rank.
struct PartitionOf {
  std::int64_t mp = 0;
  std::int64_t partition = 0;
  auto operator<=>(const PartitionOf&) const = default;
};

// A pipeline layer's weights at one tensor-parallel rank.
struct LayerOf {
  std::int64_t layer = 0;
  std::int64_t tp = 0;
  auto operator<=>(const LayerOf&) const = default;
};

// The weights of one expert: `layer` counts the layers with experts of this rank.
struct ExpertOf {
  std::int64_t mp = 0;
  std::int64_t layer = 0;
  std::int64_t expert = 0;  // Its number in the whole model.
  auto operator<=>(const ExpertOf&) const = default;
};

struct CheckpointFiles {
  std::map<std::int64_t, std::string> model_states;  // mp_rank_*: by the number, which need not have two digits.
  std::map<PartitionOf, std::string> partitioned_model_states;  // Stage 3: every partition has one.
  std::map<PartitionOf, std::string> optimizer_states;
  std::map<LayerOf, std::string> layers;
  std::map<ExpertOf, std::string> experts;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> expert_optimizers;  // Without ZeRO: by mp, expert rank.
  std::vector<std::string> other_expert_files;                                     // Of forms that are not read.
  std::vector<std::string> folders;
  std::vector<std::string> unknown_files;  // `.pt` files with other names.
};

// Returns whether a folder with this file in it is a DeepSpeed checkpoint.
bool IsCheckpointFileName(const std::string& name);

// Puts a file where its name says. Two names for the same thing (`mp_rank_0_…` and `mp_rank_00_…`) are an error that
// gives both; so is the file of an expert with a number that is too large for one.
[[nodiscard]] llvm::Error AddFileName(CheckpointFiles& files, const std::string& name);

// Returns all files of a folder.
llvm::Expected<CheckpointFiles> ListCheckpointFiles(ReadableFileSystem& files, const std::string& folder);

// Returns the names that DeepSpeed gives, for messages about files that are missing.
std::string ModelStatesName(std::int64_t mp, const CheckpointFiles& files);  // With partition 0 at stage 3.
std::string PartitionedModelStatesName(PartitionOf place);
std::string LayerName(LayerOf place, const CheckpointFiles& files);  // With the rank if other layers' names have it.
std::string ExpertFileName(ExpertOf place);
std::string ExpertOptimizerName(std::int64_t mp, std::int64_t expert_rank);
std::string OptimizerStatesName(const std::string& prefix, PartitionOf place);

}  // namespace ucp::deepspeed
