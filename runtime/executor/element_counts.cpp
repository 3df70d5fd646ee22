#include "runtime/executor/element_counts.h"

#include "compiler/plan/steps.h"

namespace ucp {

std::uint64_t BytesOfElements(const Plan& plan, const std::vector<bool>& is_mine) {
  std::uint64_t bytes = 0;
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    if (!is_mine.empty() && !is_mine[plan.target.record(range.record).file.index()]) return;
    bytes += static_cast<std::uint64_t>((range.end - range.begin) * ItemBytes(range.dtype));
  });
  return bytes;
}

std::uint64_t Elements(const Plan& plan) {
  std::uint64_t elements = 0;
  ForEachTargetRange(
      plan, [&](const TargetRange& range) { elements += static_cast<std::uint64_t>(range.end - range.begin); });
  return elements;
}

}  // namespace ucp
