// A coordinator with its agents, for tests: times are given, and its answers are kept.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/coordinator/coordination.h"

namespace ucp {

// A coordinator with its agents, each of which has the number of its connection as name.
class CoordinatedCluster {
 public:
  explicit CoordinatedCluster(std::int64_t spares = 0) : coordination_(spares) { coordination_.Begin(0); }

  void Join(Connection node, std::int64_t epoch = 0, std::int64_t least = 1, std::int64_t most = 2,
            const std::string& task = "t", std::int64_t port = 0) {
    Say(node, Introduction(AgentMessage::Kind::kJoin, node, epoch, least, most, task, port));
  }
  void Resume(Connection node, std::int64_t epoch, std::int64_t rank, std::int64_t nodes = 2) {
    AgentMessage message = Introduction(AgentMessage::Kind::kResume, node, epoch, 1, 2, "t", 0);
    message.rank = rank;
    message.nodes = nodes;
    Say(node, message);
  }
  void Beat(Connection node, std::int64_t epoch, std::int64_t step) {
    AgentMessage message{.kind = AgentMessage::Kind::kBeat, .epoch = epoch};
    message.step = step;
    Say(node, message);
  }
  void Fail(Connection node, std::int64_t epoch, std::int64_t exit_code, const std::string& exception = "",
            const std::string& text = "") {
    AgentMessage message{.kind = AgentMessage::Kind::kFailed, .epoch = epoch};
    message.ends = {{0, exit_code, exception, text}};
    Say(node, message);
  }
  void Say(Connection from, const AgentMessage& message) {
    coordination_.OnMessage(from, message, now_);
    Take();
  }
  void Close(Connection node) {
    coordination_.OnClosed(node, now_);
    Take();
  }
  // The nodes that are named beat meanwhile.
  void Pass(double seconds, const std::vector<Connection>& beating, std::int64_t epoch) {
    for (const double end = now_ + seconds; now_ < end;) {
      now_ += 0.5;
      for (const Connection node : beating) Beat(node, epoch, -1);
      coordination_.OnTick(now_);
      Take();
    }
  }
  // Both nodes train so many iterations of 1 s.
  void Train(std::int64_t epoch, std::int64_t first, std::int64_t count,
             const std::vector<Connection>& nodes = {1, 2}) {
    for (std::int64_t step = first; step < first + count; ++step) {
      now_ += 1;
      for (const Connection node : nodes) Beat(node, epoch, step);
      coordination_.OnTick(now_);
      Take();
    }
  }
  void Take() {
    CoordinatorEffects effects = coordination_.TakeEffects();
    for (CoordinatorEntry& entry : effects.entries) {
      entry.time = now_;
      entries.push_back(entry);
    }
    for (auto& [to, message] : effects.messages) messages.emplace_back(to, message);
    for (const CoordinatorEntry& entry : effects.lost) lost.push_back(entry.node);
  }
  // The nodes that were sent such a message since the last call.
  std::vector<Connection> Heard(CoordinatorMessage::Kind kind) {
    std::vector<Connection> nodes;
    for (const auto& [to, message] : messages) {
      if (message.kind == kind) nodes.push_back(to);
    }
    std::erase_if(messages, [&](const auto& message) { return message.second.kind == kind; });
    return nodes;
  }
  std::string LastAnswer() const {
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      if (entry->event == "failure") return entry->failure + " on " + entry->node + ": " + entry->answer;
    }
    return "";
  }

  Coordination coordination_;
  double now_ = 0;
  std::vector<CoordinatorEntry> entries;
  std::vector<std::pair<Connection, CoordinatorMessage>> messages;
  std::vector<std::string> lost;

 private:
  static AgentMessage Introduction(AgentMessage::Kind kind, Connection node, std::int64_t epoch, std::int64_t least,
                                   std::int64_t most, const std::string& task, std::int64_t port) {
    AgentMessage message{.kind = kind, .epoch = epoch};
    message.task = task;
    message.node = std::to_string(node);
    message.host = "host" + message.node;
    message.port = port == 0 ? 100 + node : port;
    message.least = least;
    message.most = most;
    return message;
  }
};

// Two nodes with one epoch.
inline CoordinatedCluster OfTwo() {
  CoordinatedCluster cluster;
  cluster.Join(1);
  cluster.Join(2);
  cluster.Pass(0.5, {1, 2}, 0);
  cluster.messages.clear();
  return cluster;
}

}  // namespace ucp
