// A coordinator of tasks that share the nodes of a cluster, with its agents. Each node has an agent for each task, as a
// torchrun waits for each; agents obey, and processes of one node for two tasks fail the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/coordinator/coordination.h"

namespace ucp {

class SharedCluster {
 public:
  using AgentId = std::pair<std::string, std::string>;  // Node and task.
  struct Agent {
    Connection connection = 0;  // 0: its torchrun does not run.
    std::int64_t epoch = 0;     // Of its last processes.
    bool has_processes = false;
    double stops = 0;         // When it obeys a restart; 0: there is none.
    std::string reason = {};  // Why it was closed.
  };

  explicit SharedCluster(Cluster cluster, std::int64_t spares = 0)
      : cluster_(std::make_unique<Cluster>(std::move(cluster))), coordination_(spares, cluster_.get()) {
    coordination_.Begin(0);
  }

  // torchruns of all tasks start on the node.
  void Start(const std::string& node) {
    for (const Task& task : cluster_->tasks) StartOf(node, task.name);
  }
  void StartOf(const std::string& node, const std::string& task, std::int64_t least = 1, std::int64_t most = 8) {
    Agent& agent = agents_[{node, task}];
    agent = {.connection = ++connections_};
    least_[task] = {least, most};
    Join(node, task, agent);
  }
  void Kill(const std::string& node) {
    for (const Task& task : cluster_->tasks) KillOf(node, task.name);
  }
  void KillOf(const std::string& node, const std::string& task) {
    Agent& agent = agents_[{node, task}];
    if (agent.connection != 0) coordination_.OnClosed(agent.connection, now_);
    agent = {};
    Take();
  }
  void End(const std::string& task) {
    for (const std::string& node : NodesOf(task)) EndOn(node, task);
  }
  void EndOn(const std::string& node, const std::string& task) {
    Agent& agent = agents_[{node, task}];
    agent.has_processes = false;
    const Connection connection = std::exchange(agent.connection, 0);
    coordination_.OnMessage(connection, {.kind = AgentMessage::Kind::kEnded, .epoch = agent.epoch}, now_);
    coordination_.OnClosed(connection, now_);
    Take();
  }
  void StartAgain(bool has_journal) {
    Coordination next(0, cluster_.get());
    for (const CoordinatorEntry& entry : has_journal ? entries : std::vector<CoordinatorEntry>()) {
      EXPECT_FALSE(next.Replay(entry, now_));
    }
    std::map<std::string, std::int64_t> nodes;
    for (const Task& task : cluster_->tasks) nodes[task.name] = std::ssize(NodesOf(task.name));
    coordination_ = std::move(next);
    coordination_.Begin(now_);
    std::map<AgentId, std::int64_t> ranks;
    std::map<std::string, std::int64_t> next_rank;
    for (auto& [id, agent] : agents_) {
      if (std::exchange(agent.connection, 0) != 0) ranks[id] = agent.has_processes ? next_rank[id.second]++ : -1;
    }
    for (const bool runs : {false, true}) {
      for (const auto& [id, rank] : ranks) {
        if ((rank >= 0) != runs) continue;
        agents_[id].connection = ++connections_;
        const auto kind = runs ? AgentMessage::Kind::kResume : AgentMessage::Kind::kJoin;
        Introduce(kind, id, agents_[id], std::max<std::int64_t>(rank, 0), nodes[id.second]);
        Pass(0.5);
      }
    }
  }
  void Fail(const std::string& node) {
    for (auto& [id, agent] : agents_) {
      if (id.first != node || !agent.has_processes) continue;
      AgentMessage message{.kind = AgentMessage::Kind::kFailed, .epoch = agent.epoch};
      message.ends = {{0, -9, "", ""}};
      coordination_.OnMessage(agent.connection, message, now_);
    }
    Take();
  }
  void Pass(double seconds) {
    for (const double end = now_ + seconds; now_ < end;) {
      now_ += 0.5;
      ++step_;
      for (auto& [id, agent] : agents_) {
        if (agent.connection == 0) continue;
        if (agent.stops > 0 && now_ >= agent.stops) {
          agent.has_processes = false;
          agent.stops = 0;
          Join(id.first, id.second, agent);
        }
        AgentMessage message{.kind = AgentMessage::Kind::kBeat, .epoch = agent.epoch};
        if (agent.has_processes) message.step = step_;
        coordination_.OnMessage(agent.connection, message, now_);
      }
      coordination_.OnTick(now_);
      Take();
    }
  }
  // The nodes with processes of the task.
  std::vector<std::string> NodesOf(const std::string& task) const {
    std::vector<std::string> nodes;
    for (const auto& [id, agent] : agents_) {
      if (id.second == task && agent.has_processes) nodes.push_back(id.first);
    }
    return nodes;
  }
  std::size_t CountOf(const std::string& task) const { return NodesOf(task).size(); }
  const Agent& agent(const std::string& node, const std::string& task) { return agents_[{node, task}]; }

  std::unique_ptr<Cluster> cluster_;  // Stays where it is.
  Coordination coordination_;
  std::vector<CoordinatorEntry> entries;
  std::vector<CoordinatorEntry> lost;
  double now_ = 0;
  std::map<std::string, double> seconds_to_stop;  // By task.

 private:
  void Join(const std::string& node, const std::string& task, const Agent& agent) {
    Introduce(AgentMessage::Kind::kJoin, {node, task}, agent, 0, 0);
  }
  void Introduce(AgentMessage::Kind kind, const AgentId& id, const Agent& agent, std::int64_t rank,
                 std::int64_t nodes) {
    AgentMessage message{.kind = kind, .epoch = agent.epoch, .task = id.second, .node = id.first};
    message.host = id.first;
    message.port = agent.connection;
    message.least = least_[id.second].first;
    message.most = least_[id.second].second;
    message.rank = rank;
    message.nodes = nodes;
    coordination_.OnMessage(agent.connection, message, now_);
    Take();
  }

  void Take() {
    CoordinatorEffects effects = coordination_.TakeEffects();
    entries.insert(entries.end(), effects.entries.begin(), effects.entries.end());
    lost.insert(lost.end(), effects.lost.begin(), effects.lost.end());
    for (const auto& [to, message] : effects.messages) Obey(to, message);
  }

  void Obey(Connection to, const CoordinatorMessage& message) {
    for (auto& [id, agent] : agents_) {
      if (agent.connection != to) continue;
      if (message.kind == CoordinatorMessage::Kind::kClose) {
        agent = {.reason = message.reason};
        coordination_.OnClosed(to, now_);
      } else if (message.kind == CoordinatorMessage::Kind::kWorld) {
        agent.has_processes = true;
        agent.epoch = message.epoch;
        ExpectOneTask(id.first);
      } else {
        agent.stops = now_ + seconds_to_stop[id.second];
      }
      return;
    }
  }

  void ExpectOneTask(const std::string& node) const {
    std::vector<std::string> tasks;
    for (const auto& [id, agent] : agents_) {
      if (id.first == node && agent.has_processes) tasks.push_back(id.second);
    }
    EXPECT_LE(tasks.size(), 1U) << node << " works for " << tasks.front() << " and " << tasks.back();
  }

  std::map<AgentId, Agent> agents_;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> least_;
  Connection connections_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace ucp
