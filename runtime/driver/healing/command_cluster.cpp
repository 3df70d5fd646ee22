// `ucprun cluster`, and its `plan`: which task of a cluster gets how many nodes, now and after everything that can
// happen next.
#include <fmt/format.h>

#include <memory>

#include "compiler/command_line/terminal.h"
#include "compiler/files/readable_file_system.h"
#include "runtime/comm/launcher.h"
#include "runtime/driver/commands.h"
#include "runtime/driver/healing/cluster_commands.h"
#include "runtime/healing/allocation.h"
#include "runtime/transitions/plan_transitions.h"

namespace ucp {
namespace {

struct ClusterPlanOptions {
  std::string tasks;
  bool json = false;
};

struct Row {
  std::string event;  // Its name in JSON.
  std::string label;
  NextEvent next;
  std::string task;
};

std::vector<Row> RowsOf(const Cluster& cluster) {
  std::vector<Row> rows = {{"now", "now", {ClusterEvent::kNothing}, ""}};
  std::int64_t spare = cluster.nodes;
  for (std::size_t i = 0; i < cluster.tasks.size(); ++i) {
    const std::string& name = cluster.tasks[i].name;
    spare -= cluster.tasks[i].nodes;
    if (cluster.tasks[i].nodes == 0) continue;
    rows.push_back({"node-lost", name + " loses a node", {ClusterEvent::kNodeLost, i}, name});
  }
  if (spare > 0) rows.push_back({"spare-lost", "a spare node is lost", {ClusterEvent::kSpareLost}, ""});
  rows.push_back({"node-joins", "a node joins", {ClusterEvent::kNodeJoins}, ""});
  for (std::size_t i = 0; i < cluster.tasks.size(); ++i) {
    const std::string& name = cluster.tasks[i].name;
    rows.push_back({"task-ends", name + " ends", {ClusterEvent::kTaskEnds, i}, name});
  }
  for (std::size_t i = 0; i < cluster.starts.size(); ++i) {
    const std::string& name = cluster.starts[i].name;
    rows.push_back({"task-starts", name + " starts", {ClusterEvent::kTaskStarts, i}, name});
  }
  return rows;
}

std::size_t WidthOf(const std::vector<Row>& rows) {
  std::size_t width = 5;
  for (const Row& row : rows) width = std::max(width, row.label.size());
  return width;
}

void Print(const Cluster& cluster, const NextAllocations& tables) {
  const std::vector<Row> rows = RowsOf(cluster);
  const std::size_t width = WidthOf(rows);
  std::string line = fmt::format("{:<{}}  {:>10}", "event", width, "FLOP/s");
  std::vector<std::size_t> columns;
  for (const std::vector<Task>* tasks : {&cluster.tasks, &cluster.starts}) {
    for (const Task& task : *tasks) {
      columns.push_back(std::max<std::size_t>(task.name.size(), 4));
      line += fmt::format("  {:>{}}", task.name, columns.back());
    }
  }
  PrintLine(line);
  for (const Row& row : rows) {
    const Allocation& allocation = tables.After(row.next);
    line = fmt::format("{:<{}}  {:>10.4g}", row.label, width, WorthOf(cluster, row.next, allocation));
    for (std::size_t i = 0; i < columns.size(); ++i) {
      std::size_t place = i;
      if (i >= cluster.tasks.size()) {
        if (row.next.kind != ClusterEvent::kTaskStarts || row.next.task != i - cluster.tasks.size()) continue;
        place = cluster.tasks.size();
        for (std::size_t before = cluster.tasks.size(); before < i; ++before) {
          line += fmt::format("  {:>{}}", "", columns[before]);
        }
      }
      line += fmt::format("  {:>{}}", allocation.nodes[place], columns[i]);
    }
    PrintLine(line);
  }
}

llvm::json::Array TransitionsJson(const Cluster& cluster) {
  llvm::json::Array transitions;
  for (const std::vector<Task>* tasks : {&cluster.tasks, &cluster.starts}) {
    for (const Task& task : *tasks) {
      for (const auto& [change, bytes] : task.moved) {
        transitions.push_back(llvm::json::Object{{"task", task.name},
                                                 {"from", change.from},
                                                 {"to", change.to},
                                                 {"loses_node", change.loses_node},
                                                 {"bytes", bytes},
                                                 {"seconds", task.restart_seconds + bytes / cluster.network}});
      }
    }
  }
  return transitions;
}

llvm::json::Object Json(const Cluster& cluster, const NextAllocations& tables) {
  llvm::json::Array plans;
  for (const Row& row : RowsOf(cluster)) {
    const Allocation& allocation = tables.After(row.next);
    const auto name_of = [&](std::size_t i) {
      return i < cluster.tasks.size() ? cluster.tasks[i].name : cluster.starts[row.next.task].name;
    };
    llvm::json::Object nodes;
    for (std::size_t i = 0; i < allocation.nodes.size(); ++i) nodes[name_of(i)] = allocation.nodes[i];
    llvm::json::Array waiting;
    for (std::size_t i : allocation.waiting) waiting.push_back(name_of(i));
    llvm::json::Object plan{{"event", row.event},
                            {"nodes", std::move(nodes)},
                            {"waiting", std::move(waiting)},
                            {"flops", WorthOf(cluster, row.next, allocation)}};
    plan["task"] = row.task.empty() ? llvm::json::Value(nullptr) : llvm::json::Value(row.task);
    plans.push_back(std::move(plan));
  }
  return llvm::json::Object{{"plans", std::move(plans)}, {"transitions", TransitionsJson(cluster)}};
}

llvm::Error RunClusterPlan(const ClusterPlanOptions& options) {
  UCP_ASSIGN_OR_RETURN(const Cluster cluster, ReadPlannedCluster(RealFiles(), options.tasks));
  const NextAllocations tables(cluster);
  if (options.json) {
    PrintJson(Json(cluster, tables));
  } else {
    Print(cluster, tables);
  }
  return llvm::Error::success();
}

}  // namespace

void AddClusterCommand(CLI::App& app, int& exit_code) {
  CLI::App* cluster = app.add_subcommand("cluster", "The tasks of a cluster, and which nodes they get.");
  cluster->footer("  ucprun cluster plan cluster.json\n  ucprun cluster status --endpoint head:29411");
  cluster->require_subcommand(1);
  auto options = std::make_shared<ClusterPlanOptions>();
  CLI::App* command = cluster->add_subcommand(
      "plan", "How many nodes each task should have, now and after everything that can happen next.");
  command->footer("  ucprun cluster plan cluster.json");
  command->add_option("TASKS", options->tasks, "The tasks of the cluster, a JSON file")->required()->type_name("");
  command->add_flag("--json", options->json, "The same as JSON");
  command->callback([options, &exit_code] {
    if (LeavesWorkToFirstRank()) return;
    if (llvm::Error error = RunClusterPlan(*options)) exit_code = ShowError("ucprun", std::move(error), options->json);
  });
  AddClusterNodesCommands(*cluster, exit_code);
}

}  // namespace ucp
