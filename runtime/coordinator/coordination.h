// The tasks and nodes of a coordinator, and its answers: a state machine without clocks, connections or files. It is
// given what happened and when; it says what to write down, and what to send once that is durable.
//
//   H1  A task has one epoch at a time. Every message says its own; older ones are refused.
//   H2  A node is in at most one task. One that was cut off, and whose name works for another task now, is refused.
//       With a file of tasks, a node has an agent for each task that it may work for, and processes of one.
//   H3  No epoch begins while a node of the one before has processes and is heard. A node that has been cut off counts
//       as gone.
//   H5  A decision is in `entries` before anybody hears of it in `messages`.
//   H7  The answers to failures only go up within an incident (runtime/healing/ladder.h).
//
// H4, that a step is taken by all ranks or none, is the memory tier's. H6, that nothing stops without a coordinator, is
// the agents'.
#pragma once

#include <llvm/Support/Error.h>
#include <llvm/Support/JSON.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/coordinator/entry.h"
#include "runtime/coordinator/messages.h"
#include "runtime/healing/allocation.h"
#include "runtime/healing/ladder.h"
#include "runtime/healing/pace.h"

namespace ucp {

using Connection = std::int64_t;

// The work that is left, in this order: entries become durable, then messages are sent.
struct CoordinatorEffects {
  struct Message {
    Connection to = 0;
    CoordinatorMessage message;
    bool operator==(const Message&) const = default;
  };
  std::vector<CoordinatorEntry> entries;  // Their times are the caller's to set.
  std::vector<Message> messages;
  std::vector<Connection> closed;      // After the messages.
  std::vector<CoordinatorEntry> lost;  // Nodes that are left out or gone, for somebody to replace.
  bool operator==(const CoordinatorEffects&) const = default;
};

class Coordination {
 public:
  // So many nodes of each task are left without work, where there are more than it needs. With a `cluster`, which must
  // outlive this, its tasks share all nodes by what they are worth, and so many of these nodes are left.
  explicit Coordination(std::int64_t spares, const Cluster* cluster = nullptr) : spares_(spares), cluster_(cluster) {}

  // Times are in seconds, of a clock that only goes forward. Entries of an earlier coordinator come first; then
  // Begin(). Fails with kBadData for an entry that cannot follow those before.
  [[nodiscard]] llvm::Error Replay(const CoordinatorEntry& entry, double at);
  void Begin(double now);

  void OnMessage(Connection from, const AgentMessage& message, double now);
  void OnClosed(Connection connection, double now);
  void OnTick(double now);
  // Fails with kUsage if there is no such node.
  [[nodiscard]] llvm::Error Drain(const std::string& node, double now);
  [[nodiscard]] llvm::Error Undrain(const std::string& node, double now);

  llvm::json::Object Status(double now) const;
  CoordinatorEffects TakeEffects();

  // Whether both do the same from here on.
  bool operator==(const Coordination&) const = default;

 private:
  enum class NodePhase { kGone, kWaits, kRuns, kEnded };
  struct NodeId {
    std::string task;
    std::string node;
    auto operator<=>(const NodeId&) const = default;
  };
  struct Node {
    std::int64_t number = 0;  // For the ladder.
    NodePhase phase = NodePhase::kGone;
    std::optional<Connection> connection;
    std::int64_t epoch = 0;  // Of its last processes.
    double heard = 0;
    std::string host;
    std::int64_t port = 0;
    std::string left_out;  // Why; empty: it may work.
    std::int64_t step = -1;
    std::int64_t stuck = -1;
    std::string long_phase;  // That one of its processes is in; empty: none.
    bool operator==(const Node&) const = default;
  };
  enum class TaskPhase { kForms, kRuns, kParked, kEnded };
  struct Suspect {  // A failure that may follow from another one, which is awaited.
    double until = 0;
    std::string node;
    std::string failure;
    bool operator==(const Suspect&) const = default;
  };
  struct Job {
    std::string name;
    TaskPhase phase = TaskPhase::kForms;
    std::int64_t least = 1;
    std::int64_t most = 1;
    std::int64_t epoch = 0;
    std::vector<std::string> members;  // By rank.
    double changed = 0;                // When a node came, or the epoch began.
    Ladder ladder;
    std::optional<TaskPace> pace;
    bool has_answer = false;      // Since the last iteration.
    std::int64_t step = -1;       // The last of the epoch that all nodes have finished.
    double stepped = 0;           // When.
    std::int64_t iterations = 0;  // Of the epoch.
    std::string phase_name;       // Long.
    std::optional<Suspect> suspect;
    std::string reason;                 // Why it is parked.
    std::optional<std::int64_t> share;  // Of the cluster's nodes. Nothing: there is no plan.
    bool operator==(const Job&) const = default;
  };

  void OnNode(Connection from, const AgentMessage& message, double now);
  void OnResume(Node& node, const std::string& name, Job& job, const AgentMessage& message, double now);
  void OnJoin(Node& node, const std::string& name, Job& job, const AgentMessage& message, double now);
  std::string RefusalOf(const AgentMessage& message) const;
  std::string RefusalOfName(const AgentMessage& message) const;
  // `refused`: by its own fault, and not since the task is over.
  void Refuse(Connection to, std::string reason, bool refused);
  void OnBeat(Node& node, Job& job, const AgentMessage& message, double now);
  void OnSteps(Job& job, double now);
  bool MayBeExplained(const Job& job) const;
  void OnHang(Job& job, double now);
  void OnFailed(const std::string& name, Job& job, const AgentMessage& message, double now);
  void OnEnded(Node& node, const std::string& name, Job& job);
  void Lose(const NodeId& id, Node& node, double now, const std::string& why, bool has_machine_gone);
  void Disconnect(Node& node);
  llvm::Error SetLeftOut(const std::string& name, const std::string& event, double now);
  void LeaveOut(const std::string& name, const std::string& reason);

  void Decide(Job& job, const std::string& failure, const std::string& node, double now);
  void ReplayFailure(const CoordinatorEntry& entry, Job& job, double at);
  Decision Answer(Job& job, const TaskFailure& failure, bool is_of_answer, std::int64_t iterations);
  void CarryOut(Job& job, const CoordinatorEntry& entry, double now);
  void Stop(Job& job, const std::string& reason, bool kill, double now);
  void Close(const Job& job, const std::string& reason, bool is_good);
  void Form(Job& job, double now);
  void Resize(Job& job, double now);
  std::vector<std::string> ReadyNodes(const Job& job) const;
  void Start(Job& job, std::vector<std::string> members, double now);
  void SendWorld(const Job& job, std::size_t rank);
  bool HasProcesses(const std::string& task) const;
  bool IsMember(const Job& job, const std::string& node) const;
  Job& JobOf(const std::string& task);
  static void BeginAnew(Job& job);
  Node& NodeOf(const NodeId& id);
  const Node* Find(const Job& job, const std::string& name) const;  // Nothing: it works for another task now.

  // shares.cpp
  void PlanShares(double now);
  static bool IsThere(const Node& node, double now);
  std::vector<Job*> JobsThatAreThere(double now);
  std::set<std::string> NodesThatAreThere(double now) const;
  std::int64_t AgentsOf(const Job& job, double now) const;
  std::vector<std::string> MembersThatAreThere(const Job& job) const;
  const Task& PlannedTask(const Job& job) const;
  Cluster ClusterNow(const std::vector<Job*>& jobs, std::int64_t nodes, NextEvent& event, double now) const;
  bool MayGetNodes(const Job& job, double now) const;
  void MakeRoom(double now);
  void FindNeeds(double now);
  bool IsNeeded(const Job& job, const std::string& node) const;
  void PutNeededLast(const Job& job, std::vector<std::string>& nodes) const;
  bool IsTaken(const Job& job, const std::string& node) const;
  bool WorksForAnother(const Job& job, const std::string& node) const;

  std::int64_t spares_;
  const Cluster* cluster_;
  std::map<std::string, Job> jobs_;
  std::map<NodeId, Node> nodes_;
  std::map<Connection, NodeId> names_;                   // Of the nodes that are connected.
  std::string planned_for_;                              // The nodes and tasks of the last plan.
  double planned_ = 0;                                   // When.
  std::map<std::string, std::set<std::string>> needed_;  // The tasks that wait for each node, and have too few.
  double plans_from_ = 0;
  CoordinatorEffects effects_;
};

}  // namespace ucp
