// The folders of the older container, in which each model-parallel rank saved its own part of the model:
//
//   mp_rank_01        tensor-parallel rank 1 of the only stage
//   mp_rank_01_002    the same of stage 2, or of expert-parallel rank 2 of the only stage: the arguments say which
//   mp_rank_01_002_003    of stage 2 and expert-parallel rank 3
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/files/readable_file_system.h"

namespace ucp::megatron {

inline constexpr std::string_view kRankFile = "model_optim_rng.pt";
inline constexpr std::string_view kRankStatesFile = "distrib_optim.pt";

struct RankFolder {
  std::string name;
  std::int64_t stage = 0;
  std::int64_t tensor_rank = 0;
  std::int64_t expert_rank = 0;

  std::string file() const;         // "mp_rank_01/model_optim_rng.pt"
  std::string states_file() const;  // "mp_rank_01/distrib_optim.pt"
};

// Returns the names of such folders in this one, sorted.
llvm::Expected<std::vector<std::string>> RankFoldersIn(ReadableFileSystem& files, const std::string& folder);

// Returns whether one of them holds a file of its rank.
llvm::Expected<bool> IsOfRanks(ReadableFileSystem& files, const std::string& folder);

// Returns whether a path below the folder of a checkpoint is that of a rank's file.
bool IsRankFile(std::string_view path);

// Numbers of ranks. Each tensor-parallel rank of a stage has all numbers of an expert-parallel rank.
struct RankCounts {
  std::int64_t stages = 1;
  std::int64_t tensor_ranks = 1;
  std::int64_t expert_ranks = 1;
};

// Returns those of a job, stage after stage. Fails (kBadData) if `found` lacks one, or has one that is not the job's.
llvm::Expected<std::vector<RankFolder>> RankFoldersOf(const std::string& folder, const std::vector<std::string>& found,
                                                      const RankCounts& counts);

}  // namespace ucp::megatron
