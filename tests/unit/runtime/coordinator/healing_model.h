// A model of three agents, their connections and a coordinator, whose policy is the real Coordination. A step of the
// model is one thing that happens to one of them: a line arrives, a connection breaks, an agent or the coordinator
// ends. Its agents do as runtime/python/ucp_checkpoint/_agent.py and _rendezvous.py, and torchrun around them.
//
// Lines of one connection arrive in their order; those that are on their way are lost with it. Lines of different
// connections, and both ends of a connection that breaks, are in any order. The coordinator may end between any two
// entries that it writes and lines that it sends; the next one reads the entries that were written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/coordinator/coordination.h"

namespace ucp {

inline constexpr std::size_t kModelAgents = 3;

// A broken rule. Each is caught by an invariant.
enum class ModelMutant {
  kNone,
  kOldProcessesStay,     // H1: who comes back with an older epoch hears nothing.
  kEpochsAreForgotten,   // H1: a coordinator that starts again has read no epochs.
  kNamesAreNotCompared,  // H2: a node that is connected is taken once more, for another task.
  kCutOffIsGone,         // H3: at once.
  kFailedIsStopped,      // H3: a node whose process failed has none.
  kSendsFirst,           // H5: before it writes.
  kResumedIsRestarted,   // H6: by a coordinator that starts again.
  kFailuresAreForgotten  // H7: by a coordinator that starts again.
};

struct ModelSettings {
  // How often each may happen on the way to a state.
  int failures = 0;  // A process of a node ends by a signal.
  int kills = 0;     // An agent ends with its processes.
  int returns = 0;   // torchrun starts again on a node whose agent has ended.
  int cuts = 0;      // A connection breaks.
  int ends = 0;      // The coordinator ends.
  int pauses = 0;    // Of 6 s. Nodes with nothing on its way beat meanwhile.
  bool trains = false;
  bool finishes = false;     // Processes may end well.
  bool has_journal = true;   // Otherwise each coordinator begins with nothing.
  bool shares_name = false;  // The third agent has the first one's name, and works for another task.
  std::int64_t least = 2;
  ModelMutant mutant = ModelMutant::kNone;
};

struct ModelLine {  // Of an agent.
  AgentMessage::Kind kind = AgentMessage::Kind::kBeat;
  std::int64_t epoch = 0;
  std::int64_t rank = 0;
  std::int64_t nodes = 0;
  bool operator==(const ModelLine&) const = default;
};

struct ModelOrder {  // Of the coordinator.
  CoordinatorMessage::Kind kind = CoordinatorMessage::Kind::kClose;
  std::int64_t epoch = 0;
  std::int64_t rank = 0;
  std::int64_t nodes = 0;
  bool refused = false;
  bool operator==(const ModelOrder&) const = default;
};

struct ModelWire {
  Connection number = 0;
  std::size_t agent = 0;
  bool agent_open = true;
  bool coordinator_open = true;
  bool broken = false;
  std::vector<ModelLine> lines;
  std::vector<ModelOrder> orders;
  bool operator==(const ModelWire&) const = default;
};

struct ModelAgent {
  bool is_alive = true;
  std::int64_t start = 0;  // The number of its torchrun.
  bool joins = true;
  bool has_ended = false;
  bool has_failed = false;
  bool was_told = false;  // By an order to restart, since its processes began.
  std::int64_t epoch = 0;
  std::int64_t rank = 0;
  std::int64_t nodes = 0;
  int failed = 0;  // When, in seconds.
  int heard = 0;   // When the coordinator last took a line of it, and did not refuse it.
  std::optional<ModelOrder> offer;
  std::optional<ModelOrder> order;
  bool HasProcesses() const { return is_alive && epoch > 0 && !joins && !has_ended; }
  bool operator==(const ModelAgent&) const = default;
};

using ModelEntries = std::vector<CoordinatorEntry>;

struct ModelState {
  std::vector<ModelAgent> agents = std::vector<ModelAgent>(kModelAgents);
  std::vector<ModelWire> wires;
  std::shared_ptr<const Coordination> coordination;  // None: the coordinator has ended.
  std::shared_ptr<const ModelEntries> journal = std::make_shared<const ModelEntries>();
  std::int64_t trained = 0;  // The last epoch that has had an iteration.
  int now = 0;
  int failures = 0, kills = 0, returns = 0, cuts = 0, ends = 0, pauses = 0;  // That have happened.
  bool operator==(const ModelState& other) const;
  std::size_t Hash() const;
};

struct ModelStateHash {
  std::size_t operator()(const ModelState& state) const { return state.Hash(); }
};

// A thing that can happen.
struct ModelStep {
  enum class Kind {
    kConnect,
    kReceive,
    kAct,
    kNotice,  // Of an agent.
    kFail,
    kKill,
    kReturn,
    kFinish,  // To an agent.
    kCut,
    kDeliver,
    kClosed,  // Of a wire.
    kPause,
    kBegin,
    kTrain,  // Of all.
  };
  Kind kind = Kind::kPause;
  std::size_t place = 0;  // Of the agent or the wire.
};

class HealingModel {
 public:
  explicit HealingModel(const ModelSettings& settings) : settings_(settings) {}

  ModelState First() const;
  std::vector<ModelStep> StepsOf(const ModelState& state) const;
  // The state after the step, and those in which the coordinator ended in it. Sets `broken_` if an invariant does not
  // hold.
  std::vector<ModelState> After(const ModelState& state, const ModelStep& step);
  // H1: without more faults, the nodes that are left come to one epoch.
  void CheckEnd(ModelState state);

  const std::string& broken() const { return broken_; }

 private:
  bool Apply(ModelState& state, const ModelStep& step);  // False: the coordinator has ended in it.
  void OfAgent(ModelState& state, const ModelStep& step) const;
  void Connect(ModelState& state, std::size_t agent) const;
  void Receive(ModelState& state, std::size_t agent) const;
  void Act(ModelState& state, std::size_t agent) const;
  void Rejoin(ModelState& state, std::size_t agent) const;
  void End(ModelState& state, std::size_t agent) const;
  void Say(ModelState& state, std::size_t agent, AgentMessage::Kind kind) const;
  void Introduce(ModelState& state, std::size_t agent) const;
  bool CanAct(const ModelState& state, std::size_t agent) const;

  bool Deliver(ModelState& state, ModelWire& wire);
  bool Closed(ModelState& state, ModelWire& wire);
  bool Pause(ModelState& state);
  bool Train(ModelState& state);
  bool CanTrain(const ModelState& state) const;
  void Begin(ModelState& state);
  bool CarryOut(ModelState& state, Coordination& coordination);
  bool Spend();
  void Write(ModelState& state, const CoordinatorEntry& entry);
  void Send(ModelState& state, const CoordinatorEffects::Message& message);
  AgentMessage MessageOf(const ModelState& state, std::size_t agent, const ModelLine& line) const;
  std::string NameOf(std::size_t agent) const;
  std::string TaskOf(std::size_t agent) const;

  void CheckEpoch(const ModelState& state, const CoordinatorEntry& entry);
  void CheckAnswer(const ModelState& state, const CoordinatorEntry& entry);
  void CheckOrder(const ModelState& state, const CoordinatorEffects::Message& message);
  void CheckWorlds(const ModelState& state);
  void Break(const std::string& rule);
  bool IsUndisturbed(const ModelState& state) const;
  std::string ProblemAtTheEnd(const ModelState& state) const;

  ModelSettings settings_;
  std::optional<int> left_;  // Entries and lines until the coordinator ends.
  int spent_ = 0;
  std::string broken_;
};

}  // namespace ucp
