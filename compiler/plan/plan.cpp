#include "compiler/plan/plan.h"

#include "compiler/plan/steps.h"

namespace ucp {

bool IsArithmetic(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

std::optional<BufferId> FindState(const BufferSet& set, const std::string& state) {
  for (const StateBuffer& entry : set) {
    if (entry.state == state) return entry.buffer;
  }
  return std::nullopt;
}

PlanTotals Totals(const Plan& plan) {
  PlanTotals totals;
  totals.source_files = plan.source.files.size();
  totals.target_files = plan.target.files.size();
  totals.tensors = plan.tensors.size();
  for (const StoredFile& file : plan.target.files) totals.bytes_to_write += file.bytes;
  for (const PlanRead& read : plan.reads) {
    if (read.role == ReadRole::kUnused) continue;
    for (const StateBuffer& entry : plan.source.buffer_set(read.states)) {
      auto bytes = static_cast<std::uint64_t>(plan.set(read.set).real_elements() *
                                              ItemBytes(plan.source.buffer(entry.buffer).dtype));
      (read.role == ReadRole::kCopy ? totals.bytes_to_copy : totals.bytes_to_compare) += bytes;
    }
  }
  return totals;
}

}  // namespace ucp
