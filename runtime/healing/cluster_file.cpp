#include "runtime/healing/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "compiler/support/error.h"
#include "compiler/support/parse_rate.h"
#include "runtime/healing/json_values.h"

namespace ucp {
namespace {

constexpr std::uint64_t kMostClusterBytes = std::uint64_t{64} << 20;
constexpr double kMostFlops = 1e24;
constexpr double kLeastWeight = 0.001;
constexpr double kMostWeight = 1000;
constexpr std::size_t kMostPlans = 256;          // Of all tasks, each between two strategies.
constexpr std::int64_t kMostPlannedNodes = 256;  // The bytes of a plan are counted in the cube of its nodes.
constexpr double kDay = 24 * 60 * 60;

// Reads a value into `target`.
template <typename T>
llvm::Error Into(T& target, llvm::Expected<T> value) {
  if (!value) return value.takeError();
  target = std::move(*value);
  return llvm::Error::success();
}

llvm::Expected<std::int64_t> NodesOf(const std::string& key) {
  std::int64_t nodes = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), nodes);
  const bool is_whole = error == std::errc() && end == key.data() + key.size() && !key.starts_with('0');
  if (is_whole && nodes >= 1 && nodes <= kMostNodes) return nodes;
  return Fail(ErrorCode::kUsage, "`{}` is not a number of nodes from 1 to {}", key, kMostNodes);
}

llvm::Error ReadSpeeds(JsonReader& json, std::vector<double>& speeds) {
  UCP_RETURN_IF_ERROR(json.ReadObject([&](const std::string& key) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(const std::int64_t nodes, NodesOf(key));
    speeds.resize(std::max(speeds.size(), static_cast<std::size_t>(nodes) + 1));
    return AddContext(Into(speeds[static_cast<std::size_t>(nodes)], ReadNumber(json, 0, kMostFlops)),
                      fmt::format("`{}`", key));
  }));
  if (std::ranges::any_of(speeds, [](double speed) { return speed > 0; })) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "it has no speed above 0");
}

llvm::Error ReadStrategies(JsonReader& json, std::map<std::int64_t, std::string>& strategies) {
  return json.ReadObject([&](const std::string& key) -> llvm::Error {
    UCP_ASSIGN_OR_RETURN(const std::int64_t nodes, NodesOf(key));
    if (nodes > kMostPlannedNodes) {
      return Fail(ErrorCode::kUsage, "there is a strategy on {} nodes, and plans are made for up to {}", nodes,
                  kMostPlannedNodes);
    }
    return AddContext(Into(strategies[nodes], json.ReadText()), fmt::format("`{}`", key));
  });
}

llvm::Error ReadTexts(JsonReader& json, std::vector<std::string>& texts) {
  return json.ReadArray([&] { return Into(texts.emplace_back(), json.ReadText()); });
}

void AddLayoutReaders(JsonReader& json, TaskLayouts& layouts, KeyReaders& readers) {
  readers["spec"] = [&] { return Into(layouts.spec, json.ReadText()); };
  readers["config"] = [&] { return Into(layouts.config, json.ReadText()); };
  readers["set"] = [&] { return ReadTexts(json, layouts.set); };
  readers["strategies"] = [&] { return ReadStrategies(json, layouts.strategies); };
  readers["copies"] = [&] { return Into(layouts.copies, ReadWhole(json, 1, kMostNodes)); };
}

llvm::Error CheckLayouts(const Task& task) {
  const TaskLayouts& layouts = task.layouts;
  if (layouts.spec.empty() != layouts.strategies.empty()) {
    return Fail(ErrorCode::kUsage, "it has `{}`, and not `{}`: give both, or neither",
                layouts.spec.empty() ? "strategies" : "spec", layouts.spec.empty() ? "spec" : "strategies");
  }
  if (layouts.spec.empty()) return llvm::Error::success();
  if (task.state_bytes != 0) {
    return Fail(ErrorCode::kUsage,
                "it has `state_bytes` and `strategies`, which both say what a change moves: give one");
  }
  const std::int64_t fewest = layouts.strategies.begin()->first;
  if (fewest <= task.least_nodes) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "`min_nodes` is {}, and the first of `strategies` is on {} nodes: give a strategy for {}, or a larger "
              "`min_nodes`",
              task.least_nodes, fewest, task.least_nodes);
}

llvm::Expected<Task> ReadTask(JsonReader& json, bool is_running) {
  Task task;
  KeyReaders readers;
  readers["name"] = [&] { return Into(task.name, json.ReadText()); };
  readers["weight"] = [&] { return Into(task.weight, ReadNumber(json, kLeastWeight, kMostWeight)); };
  readers["min_nodes"] = [&] { return Into(task.least_nodes, ReadWhole(json, 1, kMostNodes)); };
  readers["may_pause"] = [&] { return Into(task.may_pause, ReadBool(json)); };
  readers["speeds"] = [&] { return ReadSpeeds(json, task.speeds); };
  readers["restart_seconds"] = [&] { return Into(task.restart_seconds, ReadNumber(json, 0, kDay)); };
  readers["state_bytes"] = [&] { return Into(task.state_bytes, ReadNumber(json, 0, 1e18)); };
  AddLayoutReaders(json, task.layouts, readers);
  if (is_running) readers["nodes"] = [&] { return Into(task.nodes, ReadWhole(json, 0, kMostNodes)); };
  llvm::Error error = ReadKeys(json, std::move(readers), {"name", "speeds", "restart_seconds"});
  if (!error) error = CheckLayouts(task);
  if (error) return task.name.empty() ? std::move(error) : AddContext(std::move(error), "`" + task.name + "`");
  if (task.name.empty()) return Fail(ErrorCode::kUsage, "`name` is empty");
  return task;
}

llvm::Error ReadTasks(JsonReader& json, bool is_running, std::vector<Task>& tasks) {
  return json.ReadArray([&]() -> llvm::Error {
    if (tasks.size() == kMostTasks) return Fail(ErrorCode::kUsage, "there are more than {} tasks", kMostTasks);
    llvm::Expected<Task> task = ReadTask(json, is_running);
    if (!task) return AddContext(task.takeError(), fmt::format("task {}", tasks.size() + 1));
    tasks.push_back(std::move(*task));
    return llvm::Error::success();
  });
}

llvm::Error ReadNetwork(JsonReader& json, double& network) {
  UCP_ASSIGN_OR_RETURN(const std::string text, json.ReadText());
  const std::optional<double> rate = ParseRate(text);
  if (!rate) return Fail(ErrorCode::kUsage, "it takes a bandwidth such as 400Gb/s or 50GB/s, not `{}`", text);
  network = *rate;
  return llvm::Error::success();
}

llvm::Error CheckSums(const Cluster& cluster) {
  std::int64_t nodes = 0;
  std::int64_t promised = 0;
  for (const Task& task : cluster.tasks) {
    nodes += task.nodes;
    promised += Promise(task);
  }
  if (nodes > cluster.nodes) {
    return Fail(ErrorCode::kUsage, "the tasks have {} nodes, and the cluster {}", nodes, cluster.nodes);
  }
  if (promised > cluster.nodes) {
    return Fail(ErrorCode::kUsage,
                "the tasks must have {} nodes (`min_nodes`), and the cluster has {}: let some say `may_pause`",
                promised, cluster.nodes);
  }
  return llvm::Error::success();
}

// A task that is never through with its transition before the next failure has no use of any plan.
llvm::Error CheckTask(const Cluster& cluster, const Task& task) {
  if (task.least_nodes > cluster.nodes) {
    return Fail(ErrorCode::kUsage, "`{}` needs {} nodes, and the cluster has {}", task.name, task.least_nodes,
                cluster.nodes);
  }
  if (Worth(task, cluster.nodes) == 0) {
    return Fail(ErrorCode::kUsage, "`{}` has no speed on {} to {} nodes: give one in `speeds`", task.name,
                task.least_nodes, cluster.nodes);
  }
  const double longest = LongestTransition(task, cluster.nodes, cluster.network);
  const double failure = cluster.node_mtbf / static_cast<double>(cluster.nodes);
  if (longest <= failure) return llvm::Error::success();
  return Fail(ErrorCode::kUsage,
              "`{}` takes up to {:.3g} s for a transition, and one of {} nodes fails every {:.3g} s: it would not run",
              task.name, longest, cluster.nodes, failure);
}

}  // namespace

llvm::Error CheckCluster(const Cluster& cluster) {
  std::set<std::string> names;
  for (const std::vector<Task>* tasks : {&cluster.tasks, &cluster.starts}) {
    for (const Task& task : *tasks) {
      if (!names.insert(task.name).second) return Fail(ErrorCode::kUsage, "two tasks are named `{}`", task.name);
      UCP_RETURN_IF_ERROR(CheckTask(cluster, task));
    }
  }
  if (const std::size_t plans = CountPlans(cluster); plans > kMostPlans) {
    return Fail(ErrorCode::kUsage,
                "the `strategies` of all tasks need {} plans, one between any two of a task, and at most {} are made: "
                "give fewer",
                plans, kMostPlans);
  }
  return CheckSums(cluster);
}

llvm::Expected<Cluster> ParseCluster(std::string_view text) {
  JsonReader json(text);
  Cluster cluster;
  double hours = 0;
  KeyReaders readers;
  readers["nodes"] = [&] { return Into(cluster.nodes, ReadWhole(json, 1, kMostNodes)); };
  readers["node_mtbf_hours"] = [&] { return Into(hours, ReadNumber(json, 0.01, 1e9)); };
  readers["network"] = [&] { return ReadNetwork(json, cluster.network); };
  readers["tasks"] = [&] { return ReadTasks(json, true, cluster.tasks); };
  readers["starts"] = [&] { return ReadTasks(json, false, cluster.starts); };
  UCP_RETURN_IF_ERROR(ReadKeys(json, std::move(readers), {"nodes", "node_mtbf_hours", "network", "tasks"}));
  UCP_RETURN_IF_ERROR(json.ReadEnd());
  cluster.node_mtbf = hours * 60 * 60;
  UCP_RETURN_IF_ERROR(CheckCluster(cluster));
  return cluster;
}

llvm::Expected<Cluster> ReadClusterFile(ReadableFileSystem& files, const std::string& path) {
  UCP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(files, path, kMostClusterBytes));
  llvm::Expected<Cluster> cluster = ParseCluster(text);
  if (cluster) return cluster;
  auto [code, message] = TakeFailure(cluster.takeError());
  return Fail(ErrorCode::kUsage, "`{}`: {}", path, message);
}

}  // namespace ucp
