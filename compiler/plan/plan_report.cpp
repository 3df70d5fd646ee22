#include "compiler/plan/plan_report.h"

#include <fmt/format.h>

#include <map>

#include "compiler/plan/kept_cuts.h"
#include "compiler/support/units.h"

namespace ucp {
namespace {

// How many source shards are unused for each reason.
std::map<std::string, std::uint64_t> UnusedByReason(const Plan& plan) {
  std::map<std::string, std::uint64_t> unused;
  for (const PlanRead& read : plan.reads) {
    if (read.role == ReadRole::kUnused) ++unused[read.reason];
  }
  return unused;
}

}  // namespace

std::vector<std::string> PlanReport(const Plan& plan) {
  PlanTotals totals = Totals(plan);
  std::vector<std::string> lines;
  lines.push_back(fmt::format("from     {} ({}), {}", plan.source_format, ToString(plan.source_mesh),
                              Counted(totals.source_files, "file")));
  lines.push_back(fmt::format("to       {}, {}", plan.target_format, Counted(totals.target_files, "file")));
  lines.push_back(fmt::format("tensors  {}", WithThousands(totals.tensors)));
  lines.push_back(fmt::format("copy     {}", HumanBytes(totals.bytes_to_copy)));
  lines.push_back(fmt::format("compare  {} of replicas and weights", HumanBytes(totals.bytes_to_compare)));
  lines.push_back(fmt::format("write    {}", HumanBytes(totals.bytes_to_write)));
  if (KeepsCuts(plan)) lines.push_back(fmt::format("same     {}", kCutsAreKept));
  for (const auto& [reason, count] : UnusedByReason(plan)) {
    lines.push_back(fmt::format("unused   {} shard{}: {}", WithThousands(count), count == 1 ? "" : "s", reason));
  }
  for (const std::string& remark : plan.remarks) lines.push_back("note     " + remark);
  for (const std::string& note : DecisionNotes(plan.preference, plan.decisions)) lines.push_back("note     " + note);
  return lines;
}

llvm::json::Object PlanReportJson(const Plan& plan) {
  PlanTotals totals = Totals(plan);
  llvm::json::Array unused;
  for (const auto& [reason, count] : UnusedByReason(plan)) {
    unused.push_back(llvm::json::Object{{"reason", reason}, {"shards", count}});
  }
  llvm::json::Array remarks;
  for (const std::string& remark : plan.remarks) remarks.push_back(remark);
  return llvm::json::Object{{"source_format", plan.source_format},     {"source_mesh", ToString(plan.source_mesh)},
                            {"target_format", plan.target_format},     {"tensors", totals.tensors},
                            {"source_files", totals.source_files},     {"target_files", totals.target_files},
                            {"bytes_to_copy", totals.bytes_to_copy},   {"bytes_to_compare", totals.bytes_to_compare},
                            {"bytes_to_write", totals.bytes_to_write}, {"unused", std::move(unused)},
                            {"remarks", std::move(remarks)},           {"decisions", DecisionsJson(plan.decisions)},
                            {"left_out", LeftOutJson(plan.left_out)},  {"keeps_cuts", KeepsCuts(plan)}};
}

llvm::json::Array LeftOutJson(const std::vector<LeftOut>& left_out) {
  llvm::json::Array array;
  for (const LeftOut& one : left_out) {
    array.push_back(
        llvm::json::Object{{"file", one.file}, {"path", one.path}, {"object", one.object}, {"calls", one.calls}});
  }
  return array;
}

llvm::json::Array DecisionsJson(const std::vector<RankDecision>& decisions) {
  llvm::json::Array array;
  for (const RankDecision& decision : decisions) {
    llvm::json::Object object{
        {"what", decision.what},
        {"believed", llvm::json::Object{{"file", decision.believed_file}, {"value", decision.believed}}},
        {"overruled", llvm::json::Object{{"file", decision.overruled_file}, {"value", decision.overruled}}}};
    if (decision.elements > 0) object["elements"] = decision.elements;
    array.push_back(std::move(object));
  }
  return array;
}

}  // namespace ucp
