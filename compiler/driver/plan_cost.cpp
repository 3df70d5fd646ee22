#include "compiler/driver/plan_cost.h"

#include <fmt/format.h>

#include "compiler/support/peak_memory.h"
#include "compiler/support/units.h"

namespace ucp {
namespace {

struct Cost {
  std::uint64_t bytes_to_read = 0;
  std::uint64_t bytes_to_write = 0;
  double seconds = 0;  // With a bandwidth alone.
};

Cost CostOf(const Plan& plan, const CostQuestion& question) {
  const PlanTotals totals = Totals(plan);
  Cost cost{totals.bytes_to_copy + totals.bytes_to_compare, totals.bytes_to_write, 0};
  if (question.bytes_per_second > 0) {
    cost.seconds = static_cast<double>(cost.bytes_to_read + cost.bytes_to_write) /
                   (static_cast<double>(question.bytes_per_second) * static_cast<double>(question.nodes));
  }
  return cost;
}

std::string HumanSeconds(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  return seconds < 7200 ? fmt::format("{:.0f} min", seconds / 60) : fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

std::vector<std::string> CostReport(const Compiled& compiled, std::uint64_t plan_bytes, const CostQuestion& question) {
  const Cost cost = CostOf(compiled.plan, question);
  const auto nodes = static_cast<std::uint64_t>(question.nodes);
  std::vector<std::string> lines;
  if (nodes > 1) {
    lines.push_back(fmt::format("a node   of {} reads {} and writes {}", WithThousands(nodes),
                                HumanBytes(cost.bytes_to_read / nodes), HumanBytes(cost.bytes_to_write / nodes)));
  }
  if (question.bytes_per_second > 0) {
    lines.push_back(fmt::format("time     {} at {} a second{}, read and written", HumanSeconds(cost.seconds),
                                HumanBytes(question.bytes_per_second), nodes > 1 ? " and node" : ""));
  }
  lines.push_back(fmt::format("plan     {}, made in {:.2f} s and verified in {:.2f} s, peak memory {}",
                              HumanBytes(plan_bytes), compiled.planning_seconds, compiled.verifying_seconds,
                              HumanBytes(PeakMemoryBytes())));
  return lines;
}

void AddCost(const Compiled& compiled, std::uint64_t plan_bytes, const CostQuestion& question,
             llvm::json::Object& report) {
  const Cost cost = CostOf(compiled.plan, question);
  report["nodes"] = question.nodes;
  if (question.bytes_per_second > 0) {
    report["bytes_per_second"] = question.bytes_per_second;
    report["seconds"] = cost.seconds;
  }
  report["plan_bytes"] = plan_bytes;
  report["planning_seconds"] = compiled.planning_seconds;
  report["verifying_seconds"] = compiled.verifying_seconds;
  report["peak_memory_bytes"] = PeakMemoryBytes();
}

}  // namespace ucp
