#include <algorithm>
#include <set>

#include "compiler/planner/draft.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"

namespace ucp {
namespace {

// Dimension by dimension; nothing if one dimension has nothing in common.
std::optional<std::vector<std::vector<Progression>>> Meet(const ProductSet& source, const ProductSet& target) {
  std::vector<std::vector<Progression>> dims;
  for (std::size_t d = 0; d < source.dims.size(); ++d) {
    dims.push_back(Intersect(source.dims[d], target.dims[d]));
    if (dims.back().empty()) return std::nullopt;
  }
  return dims;
}

}  // namespace

llvm::Error MeetSets(PlanDraft& draft) {
  Plan& plan = draft.plan;
  std::set<std::pair<SetId, SetId>> met;
  auto write = plan.writes.begin();
  for (const PlanRead& read : plan.reads) {
    UCP_RETURN_IF_ERROR(CheckInterrupted());
    if (read.role == ReadRole::kUnused) continue;
    while (write != plan.writes.end() && write->tensor < read.tensor) ++write;
    for (auto other = write; other != plan.writes.end() && other->tensor == read.tensor; ++other) {
      for (SetId piece : other->pieces) {
        if (!met.emplace(read.set, piece).second) continue;
        if (auto dims = Meet(plan.set(read.set), plan.set(piece))) {
          plan.geometries.push_back({read.set, piece, std::move(*dims)});
        }
      }
    }
  }
  std::sort(plan.geometries.begin(), plan.geometries.end(), [](const Geometry& a, const Geometry& b) {
    return std::pair(a.source, a.target) < std::pair(b.source, b.target);
  });
  return llvm::Error::success();
}

}  // namespace ucp
