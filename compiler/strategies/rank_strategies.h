// A target that says only how many ranks it has, `6gpus`: the strategies of native DeepSpeed files for that many, as
// far as the checkpoint, its spec and DeepSpeed allow them.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile/compile_request.h"
#include "compiler/files/readable_file_system.h"

namespace ucp {

inline constexpr std::int64_t kMostGpus = 512;

// "6gpus" is 6. Nothing if the text is not of that form, or the number is not in [1, kMostGpus].
std::optional<std::int64_t> GpusOf(const std::string& target);

struct RankedStrategy {
  std::string strategy;              // "deepspeed:dp=3,tp=2,zero=1"
  std::uint64_t bytes_of_rank = 0;   // Tensors that a rank reads when it resumes, of the rank that has most.
  std::uint64_t bytes_to_write = 0;  // Tensors of all files.
};

struct RankedStrategies {
  std::vector<RankedStrategy> allowed;  // Ascending by bytes of a rank, then by bytes to write.
  std::size_t taken = 0;                // The one that a conversion takes.
  std::vector<std::string> refused;     // "tp=3: `heads` is 4 and …", once for each number of ranks that fails.
};

// Lays out every strategy for so many ranks, from headers alone. A conversion takes the one that changes least: the
// source's stage of ZeRO (1, if it has none), and if possible as many tensor-parallel ranks and stages as it has. Fails
// (kUsage) with the reasons if none is allowed.
llvm::Expected<RankedStrategies> RankStrategies(ReadableFileSystem& files, const CompileRequest& request,
                                                std::int64_t gpus);

// Puts the strategy that a conversion takes in the place of a target `6gpus`, and leaves every other one. Returns a
// sentence on the choice, or nothing; with `lists_all` also one for each strategy that is possible, and why others are
// not.
llvm::Expected<std::vector<std::string>> ChooseStrategy(ReadableFileSystem& files, const CompileRequest& request,
                                                        bool lists_all, std::string& target);

}  // namespace ucp
