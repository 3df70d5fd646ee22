// The tasks and nodes of a coordinator, and its answers: a state machine without clocks, connections or files. It is
// given what happened and when; it says what to write down, and what to send once that is durable.
//
//   H1  A task has one epoch at a time. Every message says its own; older ones are refused.
//   H2  A node is in at most one task. One that was cut off, and whose name works for another task now, is refused.
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
  // So many nodes of each task are left without work, where there are more than it needs.
  explicit Coordination(std::int64_t spares) : spares_(spares) {}

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
  struct Node {
    std::string task;
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
  struct Task {
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
    std::string reason;  // Why it is parked.
    bool operator==(const Task&) const = default;
  };

  void OnNode(Connection from, const AgentMessage& message, double now);
  void OnResume(Node& node, const std::string& name, Task& task, const AgentMessage& message, double now);
  void OnJoin(Node& node, Task& task, const AgentMessage& message, double now);
  std::string RefusalOf(const AgentMessage& message) const;
  // `refused`: by its own fault, and not since the task is over.
  void Refuse(Connection to, std::string reason, bool refused);
  void OnBeat(Node& node, Task& task, const AgentMessage& message, double now);
  void OnSteps(const std::string& name, Task& task, double now);
  bool MayBeExplained(const Task& task) const;
  void OnHang(const std::string& name, Task& task, double now);
  void OnFailed(const std::string& name, Task& task, const AgentMessage& message, double now);
  void OnEnded(Node& node, const std::string& name, Task& task);
  void Lose(const std::string& name, Node& node, double now, const std::string& why, bool has_machine_gone);
  void Disconnect(Node& node);
  llvm::Error LeaveOut(const std::string& name, const std::string& event, double now);

  void Decide(const std::string& name, Task& task, const std::string& failure, const std::string& node, double now);
  void ReplayFailure(const CoordinatorEntry& entry, Task& task, double at);
  Decision Answer(Task& task, const TaskFailure& failure, bool is_of_answer, std::int64_t iterations);
  void CarryOut(const std::string& name, Task& task, const CoordinatorEntry& entry, double now);
  void Stop(const std::string& name, Task& task, const std::string& reason, bool kill, double now);
  void Close(const std::string& name, const std::string& reason, bool is_good);
  void Form(const std::string& name, Task& task, double now);
  void Grow(const std::string& name, Task& task, double now);
  std::vector<std::string> ReadyNodes(const std::string& name, const Task& task) const;
  void Start(const std::string& name, Task& task, std::vector<std::string> members, double now);
  void SendWorld(const Task& task, std::size_t rank);
  bool HasProcesses(const std::string& task) const;
  bool IsMember(const Task& task, const std::string& node) const;
  Node& NodeOf(const std::string& name);

  std::int64_t spares_;
  std::map<std::string, Task> tasks_;
  std::map<std::string, Node> nodes_;
  std::map<Connection, std::string> names_;  // Of the nodes that are connected.
  CoordinatorEffects effects_;
};

}  // namespace ucp
