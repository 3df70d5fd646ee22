// The answers to failures, and the worlds that nodes form.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/coordinator/coordination.h"
#include "runtime/healing/failures.h"

namespace ucp {
namespace {

constexpr double kForExplanation = 1;  // Of a failure that may follow from another one.
constexpr double kForMoreNodes = 10;   // If there are enough, and not all that could be.
constexpr double kLong = 5 * 60;       // A task without beats that has run so long has trained.
constexpr std::int64_t kManyIterations = 1000;

const char* NameOf(Answer answer) {
  switch (answer) {
    case Answer::kNothing:
      return "nothing";
    case Answer::kReattempt:
    case Answer::kRestart:
      return "restart";
    case Answer::kIsolate:
      return "isolate";
    case Answer::kPark:
      return "park";
  }
  return "nothing";
}

// A collective that is broken off ends the process by an exception, by abort() or with some exit code.
bool FollowsFromAnother(const ProcessEnd& end) {
  if (!end.exception.empty()) return KindOfException(end.exception, end.text).severity == 3;
  return !end.exit_code || *end.exit_code >= 0 || *end.exit_code == -SIGABRT || *end.exit_code == -SIGTERM;
}

std::string_view FailureOf(const ProcessEnd& end) {
  return end.exception.empty() ? "process exited" : KindOfException(end.exception, end.text).name;
}

}  // namespace

void Coordination::OnFailed(const std::string& name, Job& task, const AgentMessage& message, double now) {
  if (task.phase != TaskPhase::kRuns) return;
  const auto cause = std::ranges::find_if_not(message.ends, FollowsFromAnother);
  if (cause != message.ends.end()) {
    task.suspect.reset();
    return Decide(task, std::string(FailureOf(*cause)), name, now);
  }
  if (task.suspect) return;
  task.suspect = Suspect{now + kForExplanation, name, std::string(FailureOf(message.ends.front()))};
}

Decision Coordination::Answer(Job& task, const TaskFailure& failure, bool is_of_answer, std::int64_t iterations) {
  if (iterations > 0) task.ladder.OnIterations(failure.at, iterations);
  return is_of_answer ? task.ladder.OnAnswerFailed(failure.at) : task.ladder.OnFailure(failure);
}

void Coordination::Decide(Job& task, const std::string& failure, const std::string& node, double now) {
  if (task.phase != TaskPhase::kRuns) return;
  const FailureKind* kind = FindFailureKind(failure);
  // The process has ended, so that nothing can be tried again in place.
  const int severity = std::min(kind == nullptr ? 2 : kind->severity, 2);
  const bool is_silent = task.step < 0 && now - task.changed > kLong;
  CoordinatorEntry entry{.event = "failure",
                         .task = task.name,
                         .node = node,
                         .epoch = task.epoch,
                         .failure = failure,
                         .severity = severity,
                         .iterations = is_silent ? kManyIterations : task.iterations,
                         .is_of_answer = task.has_answer && !is_silent && severity != 1};
  if (task.step >= 0) entry.step = task.step + 1;
  const Node* of_node = Find(task, node);
  const std::optional<std::int64_t> number = of_node == nullptr ? std::nullopt : std::optional(of_node->number);
  const Decision decision = Answer(task, {.at = now, .node = number, .severity = severity, .step = entry.step},
                                   entry.is_of_answer, entry.iterations);
  entry.answer = NameOf(decision.answer);
  entry.reason = decision.answer == Answer::kReattempt ? "the processes start again" : decision.reason;
  if (decision.answer == Answer::kIsolate && decision.node != number) {
    for (const auto& [other, of_other] : nodes_) {
      if (of_other.number == decision.node) entry.node = other.node;
    }
  }
  effects_.entries.push_back(entry);
  CarryOut(task, entry, now);
}

void Coordination::CarryOut(Job& task, const CoordinatorEntry& entry, double now) {
  if (entry.answer == "nothing") return;
  const std::string why =
      fmt::format("{} on {}: {}", entry.failure, entry.node.empty() ? "a node" : entry.node, entry.reason);
  if (entry.answer == "park") {
    task.phase = TaskPhase::kParked;
    task.reason = fmt::format("task `{}` is parked: {}", task.name, why);
    return Close(task, task.reason, false);
  }
  const Node* at_fault = Find(task, entry.node);
  if (entry.answer == "isolate" && at_fault != nullptr && at_fault->phase != NodePhase::kGone) {
    LeaveOut(entry.node, entry.reason);
    effects_.lost.push_back(entry);
  }
  Stop(task, why, entry.failure == "hang", now);
  task.has_answer = true;
}

void Coordination::Stop(Job& task, const std::string& reason, bool kill, double now) {
  task.phase = TaskPhase::kForms;
  task.changed = now;
  task.suspect.reset();
  for (const auto& [id, node] : nodes_) {
    if (id.task != task.name || node.phase != NodePhase::kRuns || !node.connection) continue;
    effects_.messages.push_back(
        {*node.connection,
         {.kind = CoordinatorMessage::Kind::kRestart, .epoch = task.epoch, .kill = kill, .reason = reason}});
  }
}

void Coordination::Close(const Job& task, const std::string& reason, bool is_good) {
  for (const auto& [id, node] : nodes_) {
    if (id.task != task.name || !node.connection || (is_good && node.phase == NodePhase::kEnded)) continue;
    effects_.messages.push_back(
        {*node.connection, {.kind = CoordinatorMessage::Kind::kClose, .is_good = is_good, .reason = reason}});
  }
}

// H3. One that is cut off has it until it is lost.
bool Coordination::HasProcesses(const std::string& task) const {
  return std::ranges::any_of(
      nodes_, [&](const auto& node) { return node.first.task == task && node.second.phase == NodePhase::kRuns; });
}

// Those that were in the last epoch come first, in its order, so that most of their state is where it was.
std::vector<std::string> Coordination::ReadyNodes(const Job& task) const {
  std::vector<std::string> ready;
  const auto add = [&](const std::string& name) {
    const auto found = nodes_.find({task.name, name});
    if (found == nodes_.end() || std::ranges::find(ready, name) != ready.end()) return;
    const Node& node = found->second;
    const bool may = node.connection && node.left_out.empty() && node.phase == NodePhase::kWaits;
    if (may && !IsTaken(task, name)) ready.push_back(name);
  };
  for (const std::string& member : task.members) add(member);
  for (const auto& [id, node] : nodes_) {
    if (id.task == task.name) add(id.node);
  }
  PutNeededLast(task, ready);
  return ready;
}

void Coordination::Form(Job& task, double now) {
  if (HasProcesses(task.name) || (cluster_ != nullptr && task.share.value_or(0) == 0)) return;
  std::vector<std::string> ready = ReadyNodes(task);
  const auto count = std::ssize(ready);
  if (count < task.least || (cluster_ != nullptr && count < PlannedTask(task).least_nodes)) return;
  const bool may_wait = task.members.empty() && count < task.most + spares_;
  if (may_wait && now - task.changed < kForMoreNodes) return;
  if (task.share && count < *task.share && MayGetNodes(task, now)) return;
  const std::int64_t most = task.share ? *task.share : std::max(task.least, count - spares_);
  ready.resize(static_cast<std::size_t>(std::min({task.most, count, most})));
  for (const auto& [id, node] : nodes_) {  // H1. It may have had processes of an epoch that is unknown here.
    if (id.task == task.name) task.epoch = std::max(task.epoch, node.epoch);
  }
  Start(task, std::move(ready), now);
}

void Coordination::Start(Job& task, std::vector<std::string> members, double now) {
  ++task.epoch;
  task.phase = TaskPhase::kRuns;
  task.members = std::move(members);
  task.changed = now;
  task.pace.emplace(now);
  task.step = -1;
  task.iterations = 0;
  task.phase_name.clear();
  for (auto& [name, other] : jobs_) {  // They do not come back to a task that waits for nodes.
    if (name == task.name || other.phase != TaskPhase::kForms) continue;
    std::erase_if(other.members, [&](const std::string& member) { return IsMember(task, member); });
  }
  effects_.entries.push_back({.event = "epoch",
                              .task = task.name,
                              .epoch = task.epoch,
                              .nodes = task.members,
                              .least = task.least,
                              .most = task.most});
  for (std::size_t rank = 0; rank < task.members.size(); ++rank) {
    Node& node = NodeOf({task.name, task.members[rank]});
    node.phase = NodePhase::kRuns;
    node.epoch = task.epoch;
    node.step = node.stuck = -1;
    node.long_phase.clear();
    SendWorld(task, rank);
  }
}

void Coordination::SendWorld(const Job& task, std::size_t rank) {
  const auto first = nodes_.find({task.name, task.members.front()});
  const auto node = nodes_.find({task.name, task.members[rank]});
  if (first == nodes_.end() || node == nodes_.end() || !node->second.connection) return;
  effects_.messages.push_back({*node->second.connection,
                               {.kind = CoordinatorMessage::Kind::kWorld,
                                .epoch = task.epoch,
                                .rank = static_cast<std::int64_t>(rank),
                                .nodes = std::ssize(task.members),
                                .host = first->second.host,
                                .port = first->second.port}});
}

// A node that comes to a task that could have more. With a plan, all that it should have are awaited for a moment, and
// a task that should have fewer gives nodes up.
void Coordination::Resize(Job& task, double now) {
  const bool ends = std::ranges::any_of(task.members, [&](const std::string& member) {
    const Node* node = Find(task, member);
    return node != nullptr && node->phase == NodePhase::kEnded;
  });
  const auto size = std::ssize(task.members);
  if (ends || (cluster_ != nullptr && !task.share) || task.share.value_or(task.most) == size) return;
  if (task.share && *task.share < size) {
    return Stop(task, fmt::format("its share is {} now", *task.share), false, now);
  }
  if (task.step < 0) return;  // It has not begun to train.
  const bool waits = std::ranges::any_of(
      nodes_, [&](const auto& node) { return node.first.task == task.name && node.second.phase == NodePhase::kWaits; });
  if (!waits) return;
  const std::vector<std::string> ready = ReadyNodes(task);
  const std::int64_t possible = size + std::ssize(ready) - (task.share ? 0 : spares_);
  if (ready.empty() || std::min(task.share.value_or(task.most), possible) <= size) return;
  if (task.share && possible < *task.share && MayGetNodes(task, now)) return;
  Stop(task, fmt::format("node {} comes", ready.front()), false, now);
}

void Coordination::LeaveOut(const std::string& name, const std::string& reason) {
  for (auto& [id, node] : nodes_) {
    if (id.node == name) node.left_out = reason;
  }
}

// A person has asked for it.
llvm::Error Coordination::SetLeftOut(const std::string& name, const std::string& event, double now) {
  std::vector<std::string> tasks;
  for (const auto& [id, node] : nodes_) {
    const bool is_first = tasks.empty() || node.phase == NodePhase::kRuns;
    if (id.node == name) tasks.insert(is_first ? tasks.begin() : tasks.end(), id.task);
  }
  if (tasks.empty()) return Fail(ErrorCode::kUsage, "there is no node `{}`", name);
  Job& task = jobs_[tasks.front()];
  const std::string reason = "a person asked for it";
  effects_.entries.push_back({.event = event, .task = task.name, .node = name, .reason = reason});
  LeaveOut(name, event == "drained" ? reason : "");
  if (event == "drained" && task.phase == TaskPhase::kRuns && IsMember(task, name)) {
    Stop(task, fmt::format("node {} is drained", name), false, now);
  }
  return llvm::Error::success();
}

llvm::Error Coordination::Drain(const std::string& node, double now) { return SetLeftOut(node, "drained", now); }

llvm::Error Coordination::Undrain(const std::string& node, double now) { return SetLeftOut(node, "undrained", now); }

llvm::Error Coordination::Replay(const CoordinatorEntry& entry, double at) {
  if (!entry.node.empty()) NodeOf({entry.task, entry.node});
  Job& task = JobOf(entry.task);
  if (entry.event == "epoch") {
    if (entry.epoch <= task.epoch || entry.nodes.empty()) {
      return Fail(ErrorCode::kBadData, "epoch {} of `{}` follows epoch {}", entry.epoch, entry.task, task.epoch);
    }
    if (task.phase == TaskPhase::kEnded || task.phase == TaskPhase::kParked) BeginAnew(task);  // As OnNode() does.
    task.least = entry.least;
    task.most = entry.most;
    task.epoch = entry.epoch - 1;
    Start(task, entry.nodes, at);
  } else if (entry.event == "trains") {
    task.ladder.OnIterations(at, 1);
    task.has_answer = false;
  } else if (entry.event == "ended") {
    task.phase = TaskPhase::kEnded;
  } else if (entry.event == "failure") {
    ReplayFailure(entry, task, at);
  } else if (entry.event == "lost") {
    NodeOf({task.name, entry.node}).phase = NodePhase::kGone;
  } else if (entry.event == "drained" || entry.event == "undrained") {
    LeaveOut(entry.node, entry.event == "drained" ? entry.reason : "");
  } else if (entry.event == "share") {
    if (cluster_ != nullptr) task.share = entry.share;
  } else {
    return Fail(ErrorCode::kBadData, "`{}` is not an event", entry.event);
  }
  effects_ = {};
  return llvm::Error::success();
}

// The ladder hears again what it heard, and has the same history.
void Coordination::ReplayFailure(const CoordinatorEntry& entry, Job& task, double at) {
  const std::optional<std::int64_t> number =
      entry.node.empty() ? std::nullopt : std::optional(NodeOf({task.name, entry.node}).number);
  Answer(task, {.at = at, .node = number, .severity = static_cast<int>(entry.severity), .step = entry.step},
         entry.is_of_answer, entry.iterations);
  CarryOut(task, entry, at);
}

llvm::json::Object Coordination::Status(double now) const {
  constexpr const char* kTaskPhases[] = {"waits for nodes", "runs", "parked", "ended"};
  constexpr const char* kNodePhases[] = {"gone", "waits", "works", "ended"};
  llvm::json::Array tasks;
  for (const auto& [name, task] : jobs_) {
    llvm::json::Object object{{"task", name},        {"state", kTaskPhases[static_cast<std::size_t>(task.phase)]},
                              {"epoch", task.epoch}, {"nodes", llvm::json::Array(task.members)},
                              {"least", task.least}, {"most", task.most}};
    object["share"] = task.share ? llvm::json::Value(*task.share) : llvm::json::Value(nullptr);
    object["step"] = task.step < 0 ? llvm::json::Value(nullptr) : llvm::json::Value(task.step);
    object["iteration_seconds"] = task.pace ? task.pace->Mean() : 0;
    object["is_slow"] = task.pace && task.phase == TaskPhase::kRuns && task.pace->At(now) == Pace::kSlow;
    tasks.push_back(std::move(object));
  }
  llvm::json::Array nodes;
  for (const auto& [id, node] : nodes_) {
    nodes.push_back(llvm::json::Object{{"node", id.node},
                                       {"task", id.task},
                                       {"state", kNodePhases[static_cast<std::size_t>(node.phase)]},
                                       {"left_out", node.left_out},
                                       {"connected", node.connection.has_value()}});
  }
  return llvm::json::Object{{"tasks", std::move(tasks)}, {"nodes", std::move(nodes)}};
}

}  // namespace ucp
