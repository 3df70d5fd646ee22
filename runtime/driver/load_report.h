// The report of `ucprun load`.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/driver/compare_loaded.h"
#include "runtime/load/load.h"
#include "runtime/storage/choose_io.h"

namespace ucp {

// Of one rank.
struct RankLoad {
  int rank = 0;
  std::uint64_t files = 0;
  std::string device;  // Empty: the host.
  LoadReport report;
  double ceiling_bytes_per_second = 0;  // 0: not measured.
  std::optional<LoadedComparison> comparison;
};

std::string Encode(const RankLoad& load);  // To be sent to rank 0: what is printed of it.
llvm::Expected<RankLoad> DecodeRankLoad(const std::string& bytes);

// `reading` is the choice of rank 0 for all.
void PrintLoad(const LoadPlan& plan, const std::string& target, const std::vector<RankLoad>& ranks,
               const IoChoice& reading);
void PrintLoadJson(const LoadPlan& plan, const std::string& target, const std::vector<RankLoad>& ranks,
                   const IoChoice& reading);

}  // namespace ucp
