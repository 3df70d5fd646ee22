#include "compiler/plan/plan.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>

#include "compiler/plan/state_feeds.h"

namespace ucp {

bool FollowsOffset(std::string_view state) { return state == kMasterState || state == kWeightState; }

bool IsArithmetic(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

std::optional<BufferId> FindState(const BufferSet& set, const std::string& state) {
  for (const StateBuffer& entry : set) {
    if (entry.state == state) return entry.buffer;
  }
  return std::nullopt;
}

std::int64_t Plan::LocalElements(const PlanWrite& write) const {
  if (!write.fused) return set(write.pieces.front().set).local_elements();
  std::int64_t elements = 1;
  for (std::int64_t length : write.fused->shape) elements *= length;
  return elements;
}

PlanTotals Totals(const Plan& plan) {
  PlanTotals totals;
  totals.source_files = plan.source.files.size();
  totals.target_files = plan.target.files.size();
  totals.tensors = plan.tensors.size();
  for (const StoredFile& file : plan.target.files) totals.bytes_to_write += file.bytes;
  StateFeeds feeds(plan);
  for (const PlanRead& read : plan.reads) {
    if (read.role == ReadRole::kUnused) continue;
    llvm::SmallVector<BufferId, 8> used;  // A master can feed itself and the weight.
    for (const LogicalTensor::State& state : plan.tensor(read.tensor).logical.states) {
      std::optional<BufferId> buffer = feeds.Find(read, state.name);
      if (buffer && !llvm::is_contained(used, *buffer)) used.push_back(*buffer);
    }
    for (BufferId buffer : used) {
      auto bytes =
          static_cast<std::uint64_t>(plan.set(read.set).real_elements() * ItemBytes(plan.source.buffer(buffer).dtype));
      (read.role == ReadRole::kCopy ? totals.bytes_to_copy : totals.bytes_to_compare) += bytes;
    }
  }
  return totals;
}

}  // namespace ucp
