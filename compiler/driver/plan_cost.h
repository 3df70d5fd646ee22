// The cost of a conversion between two strategies, for people who have neither the files nor the machines yet.
#pragma once

#include <llvm/Support/JSON.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/compile/compile.h"

namespace ucp {

struct CostQuestion {
  std::uint64_t bytes_per_second = 0;  // That one node reads and writes, both counted; 0: not said.
  std::int64_t nodes = 1;              // Over which the work is spread by bytes.
};

// Lines behind those of PlanReport(). `plan_bytes` is the size of the plan's file.
std::vector<std::string> CostReport(const Compiled& compiled, std::uint64_t plan_bytes, const CostQuestion& question);
// Keys beside those of PlanReportJson().
void AddCost(const Compiled& compiled, std::uint64_t plan_bytes, const CostQuestion& question,
             llvm::json::Object& report);

}  // namespace ucp
