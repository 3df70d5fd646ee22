// The nodes of the coordinator, and their messages. answers.cpp has the answers to failures.
#include "runtime/coordinator/coordination.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr double kDeadAfter = 5;
constexpr double kAfterRestart = 10;  // For agents to find a coordinator that was away.
constexpr std::int64_t kMostOfOneReport = 130;

}  // namespace

Coordination::Node& Coordination::NodeOf(const std::string& name) {
  const auto [found, is_new] = nodes_.try_emplace(name);
  if (is_new) found->second.number = static_cast<std::int64_t>(nodes_.size());
  return found->second;
}

bool Coordination::IsMember(const Task& task, const std::string& node) const {
  return std::ranges::find(task.members, node) != task.members.end();
}

// Agents have a moment to come back: whoever does not is lost.
void Coordination::Begin(double now) {
  for (auto& [name, node] : nodes_) {
    const TaskPhase phase = tasks_[node.task].phase;
    const bool may_run = phase == TaskPhase::kRuns || phase == TaskPhase::kForms;
    if (!may_run) node.phase = NodePhase::kGone;
    node.heard = now + kAfterRestart - kDeadAfter;
  }
  for (auto& [name, task] : tasks_) {
    task.changed = now;
    if (task.phase == TaskPhase::kRuns) task.pace.emplace(now);
  }
}

void Coordination::Refuse(Connection to, std::string reason, bool refused) {
  effects_.messages.push_back(
      {to, {.kind = CoordinatorMessage::Kind::kClose, .refused = refused, .reason = std::move(reason)}});
  effects_.closed.push_back(to);
}

// H2, and two jobs of one name.
std::string Coordination::RefusalOf(const AgentMessage& message) const {
  const auto node = nodes_.find(message.node);
  // The same agent, whose earlier connection has gone without a word.
  const bool is_same = node != nodes_.end() && node->second.task == message.task && message.port != 0 &&
                       node->second.host == message.host && node->second.port == message.port;
  if (node != nodes_.end() && node->second.connection && !is_same) {
    return fmt::format(
        "node `{}` is connected already and works for task `{}`; another node of this machine needs a name of its own, "
        "by `node=NAME` in the settings of its rendezvous",
        message.node, node->second.task);
  }
  const bool has_processes = node != nodes_.end() && node->second.phase == NodePhase::kRuns;
  if (has_processes && node->second.task != message.task) {
    return fmt::format("node `{}` works for task `{}`, and cannot work for `{}` at the same time", message.node,
                       node->second.task, message.task);
  }
  const auto task = tasks_.find(message.task);
  if (task == tasks_.end()) return "";
  const bool is_other = task->second.least != message.least || task->second.most != message.most;
  const bool has_nodes = std::ranges::any_of(nodes_, [&](const auto& other) {
    return other.second.task == message.task && (other.second.connection || other.second.phase == NodePhase::kRuns);
  });
  if (is_other && has_nodes && task->second.phase != TaskPhase::kEnded && task->second.phase != TaskPhase::kParked) {
    return fmt::format(
        "task `{}` has {} to {} nodes, and this node says {} to {}; another job needs another rendezvous id",
        message.task, task->second.least, task->second.most, message.least, message.most);
  }
  return "";
}

void Coordination::OnNode(Connection from, const AgentMessage& message, double now) {
  if (std::string reason = RefusalOf(message); !reason.empty()) return Refuse(from, std::move(reason), true);
  Node& node = NodeOf(message.node);
  const bool has_nodes = std::ranges::any_of(
      nodes_, [&](const auto& other) { return other.second.task == message.task && other.second.connection; });
  Task& task = tasks_[message.task];
  const bool is_over = task.phase == TaskPhase::kEnded || task.phase == TaskPhase::kParked;
  if (task.phase == TaskPhase::kParked && has_nodes) return Refuse(from, task.reason, false);
  const bool is_resume = message.kind == AgentMessage::Kind::kResume;
  if (is_resume && task.phase == TaskPhase::kEnded && message.epoch == task.epoch) {  // It was away at the end.
    effects_.messages.push_back(
        {from, {.kind = CoordinatorMessage::Kind::kClose, .is_good = true, .reason = "the task has ended"}});
    return effects_.closed.push_back(from);
  }
  if (is_over) {  // The same name again: a new job, whose epochs go on counting.
    const std::int64_t epoch = task.epoch;
    task = Task();
    task.epoch = epoch;
  }
  task.least = message.least;
  task.most = message.most;
  Disconnect(node);
  node.task = message.task;
  node.connection = from;
  node.heard = now;
  names_[from] = message.node;
  if (is_resume) {
    OnResume(node, message.node, task, message, now);
  } else {
    OnJoin(node, task, message, now);
  }
}

// H1: processes of another epoch are stopped. A coordinator that knows nothing of the task takes it over as it is.
void Coordination::OnResume(Node& node, const std::string& name, Task& task, const AgentMessage& message, double now) {
  const bool is_unknown = task.epoch == 0 || (task.phase == TaskPhase::kRuns && task.epoch == message.epoch);
  node.host = message.host;
  node.port = message.port;
  node.phase = NodePhase::kRuns;
  node.epoch = message.epoch;
  if (is_unknown) {
    if (task.epoch == 0) {
      task.epoch = message.epoch;
      task.phase = TaskPhase::kRuns;
      task.changed = now;
      task.pace.emplace(now);
    }
    if (IsMember(task, name)) return;
    const auto rank = static_cast<std::size_t>(message.rank);
    if (task.members.size() <= rank) task.members.resize(static_cast<std::size_t>(message.nodes));
    if (task.members[rank].empty()) {
      task.members[rank] = name;
      return;
    }
  }
  effects_.messages.push_back({*node.connection,
                               {.kind = CoordinatorMessage::Kind::kRestart,
                                .epoch = std::max(task.epoch, message.epoch),
                                .reason = "the task has another epoch"}});
}

void Coordination::OnJoin(Node& node, Task& task, const AgentMessage& message, double now) {
  const std::string name = names_[*node.connection];
  const bool was_running = node.phase == NodePhase::kRuns && IsMember(task, name);
  const std::int64_t port = std::exchange(node.port, message.port);
  node.host = message.host;
  node.phase = NodePhase::kWaits;
  node.epoch = message.epoch;
  node.step = node.stuck = -1;
  if (task.phase == TaskPhase::kForms) task.changed = now;
  if (task.phase != TaskPhase::kRuns || !was_running) return;
  if (port == message.port && message.epoch < task.epoch) {  // It has not heard of its epoch (H5).
    node.phase = NodePhase::kRuns;
    SendWorld(task, static_cast<std::size_t>(std::ranges::find(task.members, name) - task.members.begin()));
  } else if (port == 0) {  // Nor has any other: this coordinator does not know where they are.
    Stop(node.task, task, "the coordinator was away when the epoch began", false, now);
  } else {  // Its agent is another one, or has stopped the processes by itself.
    Decide(node.task, task, "process exited", name, now);
  }
}

void Coordination::OnMessage(Connection from, const AgentMessage& message, double now) {
  const bool is_new = message.kind == AgentMessage::Kind::kResume ||
                      (message.kind == AgentMessage::Kind::kJoin && !names_.contains(from));
  if (is_new) return OnNode(from, message, now);
  const auto known = names_.find(from);
  if (known == names_.end()) return Refuse(from, "a node must join first", true);
  const std::string name = known->second;
  Node& node = nodes_[name];
  Task& task = tasks_[node.task];
  node.heard = now;
  if (message.kind == AgentMessage::Kind::kJoin) {
    if (task.phase == TaskPhase::kParked) return Refuse(from, task.reason, false);
    return OnJoin(node, task, message, now);
  }
  if (message.kind == AgentMessage::Kind::kLeave) {
    const bool has_work = node.phase == NodePhase::kRuns && IsMember(task, name);
    if (has_work) return Lose(name, node, now, "its agent has ended", false);
    if (node.phase != NodePhase::kEnded) node.phase = NodePhase::kGone;
    return;
  }
  if (message.epoch != task.epoch || node.phase != NodePhase::kRuns || !IsMember(task, name)) return;  // H1.
  if (message.kind == AgentMessage::Kind::kBeat) return OnBeat(node, task, message, now);
  if (message.kind == AgentMessage::Kind::kFailed) return OnFailed(name, task, message, now);
  OnEnded(node, name, task);
}

void Coordination::OnBeat(Node& node, Task& task, const AgentMessage& message, double now) {
  node.step = std::max(node.step, message.step);
  node.stuck = message.stuck;
  node.long_phase = message.phase;
  if (!task.pace || task.phase != TaskPhase::kRuns) return;
  const std::string name = node.task;
  OnSteps(name, task, now);
  // The phase of a rank is the task's, until no node is in it: others wait for it.
  const bool lasts = !task.phase_name.empty() && std::ranges::any_of(task.members, [&](const std::string& member) {
    return !member.empty() && nodes_[member].long_phase == task.phase_name;
  });
  if (lasts || message.phase == task.phase_name) return;
  task.phase_name = message.phase;
  if (message.phase.empty()) {
    task.pace->OnPhaseEnds(now);
  } else {
    task.pace->OnPhase(message.phase, now, message.phase_seconds);
  }
}

// A report may have several iterations, if they are short.
void Coordination::OnSteps(const std::string& name, Task& task, double now) {
  const bool waits = std::ranges::any_of(
      task.members, [&](const std::string& member) { return member.empty() || nodes_[member].step <= task.step; });
  if (waits) return;
  std::int64_t least = -1;
  for (const std::string& member : task.members) {
    const std::int64_t step = nodes_[member].step;
    least = member == task.members.front() ? step : std::min(least, step);
  }
  const bool is_first = task.step < 0;
  const std::int64_t count = is_first ? 1 : std::min(least - task.step, kMostOfOneReport);
  const double before = is_first ? now : task.stepped;
  for (std::int64_t i = 1; i <= count; ++i) {
    task.pace->OnIteration(before + (now - before) * static_cast<double>(i) / static_cast<double>(count));
  }
  task.phase_name.clear();
  task.iterations += is_first ? 1 : least - task.step;
  task.step = least;
  task.stepped = now;
  task.ladder.OnIterations(now, task.iterations);
  if (is_first) {
    effects_.entries.push_back({.event = "trains", .task = name, .epoch = task.epoch, .step = least});
  }
  task.has_answer = false;
}

void Coordination::OnEnded(Node& node, const std::string& name, Task& task) {
  node.phase = NodePhase::kEnded;
  const bool is_all = std::ranges::all_of(task.members, [&](const std::string& member) {
    return member.empty() || member == name || nodes_[member].phase == NodePhase::kEnded;
  });
  if (!is_all) return;
  task.phase = TaskPhase::kEnded;
  effects_.entries.push_back({.event = "ended", .task = node.task, .epoch = task.epoch});
  Close(node.task, "the task has ended", true);
}

void Coordination::OnClosed(Connection connection, double now) {
  const auto known = names_.find(connection);
  if (known == names_.end()) return;
  Node& node = nodes_[known->second];
  names_.erase(known);
  node.connection.reset();
  node.heard = std::max(node.heard, now);
  if (node.phase == NodePhase::kWaits) node.phase = NodePhase::kGone;
}

void Coordination::Disconnect(Node& node) {
  if (!node.connection) return;
  effects_.closed.push_back(*node.connection);
  names_.erase(*node.connection);
  node.connection.reset();
}

void Coordination::Lose(const std::string& name, Node& node, double now, const std::string& why,
                        bool has_machine_gone) {
  Task& task = tasks_[node.task];
  node.phase = NodePhase::kGone;
  Disconnect(node);
  effects_.entries.push_back({.event = "lost", .task = node.task, .node = name, .epoch = task.epoch, .reason = why});
  const bool is_wanted = task.phase == TaskPhase::kRuns || task.phase == TaskPhase::kForms;
  if (has_machine_gone && is_wanted) effects_.lost.push_back(effects_.entries.back());
  if (task.phase == TaskPhase::kRuns && IsMember(task, name)) Decide(node.task, task, "lost connection", name, now);
}

void Coordination::OnTick(double now) {
  for (auto& [name, node] : nodes_) {
    if (now - node.heard <= kDeadAfter || node.phase == NodePhase::kGone || node.phase == NodePhase::kEnded) continue;
    Lose(name, node, now, fmt::format("nothing is heard of it for {} s", kDeadAfter), true);
  }
  for (auto& [name, task] : tasks_) {
    if (task.suspect && now >= task.suspect->until && !MayBeExplained(task)) {
      const Suspect suspect = *std::exchange(task.suspect, std::nullopt);
      Decide(name, task, suspect.failure, suspect.node, now);
    }
    if (task.phase == TaskPhase::kForms) Form(name, task, now);
    if (task.phase != TaskPhase::kRuns) continue;
    const bool is_whole = std::ranges::find(task.members, "") == task.members.end();
    if (!is_whole && now - task.changed > kAfterRestart) {
      Stop(name, task, "a node of the epoch has not come to the new coordinator", false, now);
      continue;
    }
    Grow(name, task, now);
    if (task.phase == TaskPhase::kRuns && task.pace && task.pace->At(now) == Pace::kHang) OnHang(name, task, now);
  }
}

// A node that has just been cut off explains a failure of another one, if it does not come back.
bool Coordination::MayBeExplained(const Task& task) const {
  return std::ranges::any_of(task.members, [&](const std::string& member) {
    const auto node = nodes_.find(member);
    return node != nodes_.end() && node->second.phase == NodePhase::kRuns && !node->second.connection;
  });
}

// At fault is the one that the system has stopped, or the one that is behind.
void Coordination::OnHang(const std::string& name, Task& task, double now) {
  std::vector<std::string> behind;
  for (const std::string& member : task.members) {
    if (!member.empty() && nodes_[member].stuck >= 0) behind.assign(1, member);
  }
  if (behind.empty()) {
    std::ranges::copy_if(task.members, std::back_inserter(behind),
                         [&](const std::string& member) { return nodes_[member].step == task.step; });
  }
  Decide(name, task, "hang", behind.size() == 1 ? behind.front() : "", now);
}

CoordinatorEffects Coordination::TakeEffects() { return std::exchange(effects_, {}); }

}  // namespace ucp
