#include "runtime/transitions/plan_transitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/compile/compile.h"
#include "compiler/describe/bound_source.h"
#include "compiler/layout/file_readers.h"
#include "compiler/support/error.h"
#include "compiler/synthetic/planned_source.h"
#include "runtime/healing/cluster_file.h"
#include "runtime/memory_tier/placement.h"
#include "runtime/transitions/moved_parts.h"

namespace ucp {
namespace {

llvm::Error CheckHolders(const FileReaders& holders, const std::string& strategy, std::int64_t nodes) {
  if (holders.ranks == 0) {
    return Fail(ErrorCode::kUsage,
                "`{}` does not say which rank holds what: give a strategy `deepspeed:…` that is not elastic", strategy);
  }
  if (holders.ranks % nodes == 0) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "`{}` has {} {}, which do not divide over {} nodes", strategy, holders.ranks,
              holders.ranks == 1 ? "rank" : "ranks", nodes);
}

llvm::Expected<std::vector<MovedPart>> PlanChange(ReadableFileSystem& files, const TaskLayouts& layouts,
                                                  std::int64_t before, std::int64_t after) {
  CompileRequest request;
  request.source.path = layouts.strategies.at(before);
  request.source.spec = layouts.spec;
  request.source.config = layouts.config;
  UCP_ASSIGN_OR_RETURN(request.source.set, ParseSettings(layouts.set));
  request.target = layouts.strategies.at(after);
  request.replicas = ReplicaPolicy::kTrust;
  FileReaders holders;
  UCP_ASSIGN_OR_RETURN(BoundSource source, BindStrategy(files, request, &holders));
  UCP_RETURN_IF_ERROR(CheckHolders(holders, request.source.path, before));
  UCP_ASSIGN_OR_RETURN(const Compiled compiled, CompileBound(files, request, std::move(source)));
  UCP_RETURN_IF_ERROR(CheckHolders(compiled.plan.readers, request.target, after));
  return MovedParts(compiled.plan, holders, before, after);
}

// Those that stay, in their order.
std::vector<std::int64_t> NodesWithout(std::int64_t lost, std::int64_t before, std::int64_t after) {
  std::vector<std::int64_t> kept;
  for (std::int64_t node = 0; node < before && std::ssize(kept) < after; ++node) {
    if (node != lost) kept.push_back(node);
  }
  return kept;
}

llvm::Error PlanOne(ReadableFileSystem& files, Task& task, std::int64_t before, std::int64_t after) {
  UCP_ASSIGN_OR_RETURN(const std::vector<MovedPart> parts, PlanChange(files, task.layouts, before, after));
  UCP_ASSIGN_OR_RETURN(const Placement copies, PlaceMachines(before, std::min(task.layouts.copies, before)));
  if (before == after) task.moved[{0, after, false}] = BytesOfBusiestNode(parts, {}, after, copies);
  constexpr std::int64_t kNobody = -1;
  task.moved[{before, after, false}] = BytesOfBusiestNode(parts, NodesWithout(kNobody, before, after), after, copies);
  double& most = task.moved[{before, after, true}];
  for (std::int64_t lost = 0; lost < before; ++lost) {
    most = std::max(most, BytesOfBusiestNode(parts, NodesWithout(lost, before, after), after, copies));
  }
  return llvm::Error::success();
}

std::string NodesText(std::int64_t nodes) { return fmt::format("{} {}", nodes, nodes == 1 ? "node" : "nodes"); }

// The spec's own errors are not here to be shown.
llvm::Error InOneSentence(llvm::Error error, const TaskLayouts& layouts, std::int64_t before, std::int64_t after) {
  auto [code, message] = TakeFailure(std::move(error));
  if (code == ErrorCode::kSpec) message += "; `ucpc plan` with this spec and these strategies shows them";
  return Fail(ErrorCode::kUsage, "from `{}` on {} to `{}` on {}: {}", layouts.strategies.at(before), NodesText(before),
              layouts.strategies.at(after), NodesText(after), message);
}

}  // namespace

llvm::Error PlanTransitions(ReadableFileSystem& files, Task& task) {
  for (const auto& [before, from] : task.layouts.strategies) {
    for (const auto& [after, to] : task.layouts.strategies) {
      if (llvm::Error error = PlanOne(files, task, before, after)) {
        return InOneSentence(std::move(error), task.layouts, before, after);
      }
    }
  }
  return llvm::Error::success();
}

llvm::Expected<Cluster> ReadPlannedCluster(ReadableFileSystem& files, const std::string& path,
                                           llvm::function_ref<void(const std::string&)> say) {
  UCP_ASSIGN_OR_RETURN(Cluster cluster, ReadClusterFile(files, path));
  if (const std::size_t plans = CountPlans(cluster); plans > 0 && say) {
    say(fmt::format("makes {} {} for changes of nodes before it listens", plans, plans == 1 ? "plan" : "plans"));
  }
  for (std::vector<Task>* tasks : {&cluster.tasks, &cluster.starts}) {
    for (Task& task : *tasks) {
      if (llvm::Error error = PlanTransitions(files, task)) {
        return AddContext(std::move(error), fmt::format("`{}`: `{}`: `strategies`", path, task.name));
      }
    }
  }
  if (llvm::Error error = CheckCluster(cluster)) return AddContext(std::move(error), fmt::format("`{}`", path));
  return cluster;
}

}  // namespace ucp
