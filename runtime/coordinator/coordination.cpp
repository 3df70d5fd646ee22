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

Coordination::Job& Coordination::JobOf(const std::string& task) {
  Job& job = jobs_[task];
  job.name = task;
  return job;
}

// Agents of one node have its number, and are left out together. Without a plan, a node has the task that it named
// last.
Coordination::Node& Coordination::NodeOf(const NodeId& id) {
  if (const auto known = nodes_.find(id); known != nodes_.end()) return known->second;
  const auto same = std::ranges::find_if(nodes_, [&](const auto& node) { return node.first.node == id.node; });
  Node node;
  if (same == nodes_.end()) {
    for (const auto& [other, of_other] : nodes_) node.number = std::max(node.number, of_other.number);
    ++node.number;
  } else if (cluster_ == nullptr) {
    node = same->second;
    nodes_.erase(same);
  } else {
    node.number = same->second.number;
    node.left_out = same->second.left_out;
  }
  return nodes_.emplace(id, std::move(node)).first->second;
}

// The same name again: a new job, whose epochs go on counting.
void Coordination::BeginAnew(Job& job) {
  Job anew;
  anew.name = job.name;
  anew.epoch = job.epoch;
  anew.share = job.share;
  job = std::move(anew);
}

const Coordination::Node* Coordination::Find(const Job& job, const std::string& name) const {
  const auto found = nodes_.find({job.name, name});
  return found == nodes_.end() ? nullptr : &found->second;
}

bool Coordination::IsMember(const Job& job, const std::string& node) const {
  return std::ranges::find(job.members, node) != job.members.end();
}

// Agents have a moment to come back: whoever does not is lost.
void Coordination::Begin(double now) {
  for (auto& [id, node] : nodes_) {
    const TaskPhase phase = JobOf(id.task).phase;
    const bool may_run = phase == TaskPhase::kRuns || phase == TaskPhase::kForms;
    if (!may_run) node.phase = NodePhase::kGone;
    node.heard = now + kAfterRestart - kDeadAfter;
  }
  for (auto& [name, job] : jobs_) {
    job.changed = now;
    if (job.phase == TaskPhase::kRuns) job.pace.emplace(now);
  }
  plans_from_ = now + kAfterRestart;
}

void Coordination::Refuse(Connection to, std::string reason, bool refused) {
  effects_.messages.push_back(
      {to, {.kind = CoordinatorMessage::Kind::kClose, .refused = refused, .reason = std::move(reason)}});
  effects_.closed.push_back(to);
}

// H2. With a plan, an agent may wait while its node works for another task.
std::string Coordination::RefusalOfName(const AgentMessage& message) const {
  for (const auto& [id, node] : nodes_) {
    const bool is_task = id.task == message.task;
    if (id.node != message.node || (cluster_ != nullptr && !is_task)) continue;
    // The same agent, whose earlier connection has gone without a word.
    const bool is_same = is_task && message.port != 0 && node.host == message.host && node.port == message.port;
    if (node.connection && !is_same) {
      return fmt::format(
          "node `{}` is connected already and works for task `{}`; another node of this machine needs a name of its "
          "own, by `node=NAME` in the settings of its rendezvous",
          message.node, id.task);
    }
    if (node.phase == NodePhase::kRuns && !is_task) {
      return fmt::format("node `{}` works for task `{}`, and cannot work for `{}` at the same time", message.node,
                         id.task, message.task);
    }
  }
  return "";
}

// H2, and two jobs of one name.
std::string Coordination::RefusalOf(const AgentMessage& message) const {
  if (std::string reason = RefusalOfName(message); !reason.empty()) return reason;
  const auto job = jobs_.find(message.task);
  if (job == jobs_.end()) return "";
  const bool is_other = job->second.least != message.least || job->second.most != message.most;
  const bool has_nodes = std::ranges::any_of(nodes_, [&](const auto& other) {
    return other.first.task == message.task && (other.second.connection || other.second.phase == NodePhase::kRuns);
  });
  if (is_other && has_nodes && job->second.phase != TaskPhase::kEnded && job->second.phase != TaskPhase::kParked) {
    return fmt::format(
        "task `{}` has {} to {} nodes, and this node says {} to {}; another job needs another rendezvous id",
        message.task, job->second.least, job->second.most, message.least, message.most);
  }
  return "";
}

void Coordination::OnNode(Connection from, const AgentMessage& message, double now) {
  if (std::string reason = RefusalOf(message); !reason.empty()) return Refuse(from, std::move(reason), true);
  const bool is_planned =
      cluster_ == nullptr || std::ranges::find(cluster_->tasks, message.task, &Task::name) != cluster_->tasks.end();
  if (!is_planned) {  // Other tasks get its nodes: its processes end.
    return Refuse(
        from, fmt::format("task `{}` is not in the file of tasks that the coordinator was started with", message.task),
        message.kind == AgentMessage::Kind::kJoin);
  }
  const NodeId id{message.task, message.node};
  Node& node = NodeOf(id);
  const bool has_nodes = std::ranges::any_of(
      nodes_, [&](const auto& other) { return other.first.task == message.task && other.second.connection; });
  Job& task = JobOf(message.task);
  const bool is_over = task.phase == TaskPhase::kEnded || task.phase == TaskPhase::kParked;
  if (task.phase == TaskPhase::kParked && has_nodes) return Refuse(from, task.reason, false);
  const bool is_resume = message.kind == AgentMessage::Kind::kResume;
  if (is_resume && task.phase == TaskPhase::kEnded && message.epoch == task.epoch) {  // It was away at the end.
    effects_.messages.push_back(
        {from, {.kind = CoordinatorMessage::Kind::kClose, .is_good = true, .reason = "the task has ended"}});
    return effects_.closed.push_back(from);
  }
  if (is_over) BeginAnew(task);
  task.least = message.least;
  task.most = message.most;
  Disconnect(node);
  node.connection = from;
  node.heard = now;
  names_[from] = id;
  if (is_resume) {
    OnResume(node, message.node, task, message, now);
  } else {
    OnJoin(node, message.node, task, message, now);
  }
}

// H1: processes of another epoch are stopped. A coordinator that knows nothing of the task takes it over as it is.
void Coordination::OnResume(Node& node, const std::string& name, Job& task, const AgentMessage& message, double now) {
  const bool is_known = task.epoch == 0 || (task.phase == TaskPhase::kRuns && task.epoch == message.epoch);
  const bool may_run = is_known && !WorksForAnother(task, name);  // H2.
  node.host = message.host;
  node.port = message.port;
  node.phase = NodePhase::kRuns;
  node.epoch = message.epoch;
  if (may_run) {
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

void Coordination::OnJoin(Node& node, const std::string& name, Job& task, const AgentMessage& message, double now) {
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
    Stop(task, "the coordinator was away when the epoch began", false, now);
  } else {  // Its agent is another one, or has stopped the processes by itself.
    Decide(task, "process exited", name, now);
  }
}

void Coordination::OnMessage(Connection from, const AgentMessage& message, double now) {
  const bool is_new = message.kind == AgentMessage::Kind::kResume ||
                      (message.kind == AgentMessage::Kind::kJoin && !names_.contains(from));
  if (is_new) return OnNode(from, message, now);
  const auto known = names_.find(from);
  if (known == names_.end()) return Refuse(from, "a node must join first", true);
  const NodeId id = known->second;
  const std::string& name = id.node;
  Node& node = nodes_[id];
  Job& task = jobs_[id.task];
  node.heard = now;
  if (message.kind == AgentMessage::Kind::kJoin) {
    if (task.phase == TaskPhase::kParked) return Refuse(from, task.reason, false);
    return OnJoin(node, name, task, message, now);
  }
  if (message.kind == AgentMessage::Kind::kLeave) {
    const bool has_work = node.phase == NodePhase::kRuns && IsMember(task, name);
    if (has_work) return Lose(id, node, now, "its agent has ended", false);
    if (node.phase != NodePhase::kEnded) node.phase = NodePhase::kGone;
    return;
  }
  if (message.epoch != task.epoch || node.phase != NodePhase::kRuns || !IsMember(task, name)) return;  // H1.
  if (message.kind == AgentMessage::Kind::kBeat) return OnBeat(node, task, message, now);
  if (message.kind == AgentMessage::Kind::kFailed) return OnFailed(name, task, message, now);
  OnEnded(node, name, task);
}

void Coordination::OnBeat(Node& node, Job& task, const AgentMessage& message, double now) {
  node.step = std::max(node.step, message.step);
  node.stuck = message.stuck;
  node.long_phase = message.phase;
  if (!task.pace || task.phase != TaskPhase::kRuns) return;
  OnSteps(task, now);
  // The phase of a rank is the task's, until no node is in it: others wait for it.
  const bool lasts = !task.phase_name.empty() && std::ranges::any_of(task.members, [&](const std::string& member) {
    const Node* node_of = Find(task, member);
    return node_of != nullptr && node_of->long_phase == task.phase_name;
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
void Coordination::OnSteps(Job& task, double now) {
  const bool waits = std::ranges::any_of(task.members, [&](const std::string& member) {
    const Node* node = Find(task, member);
    return node == nullptr || node->step <= task.step;
  });
  if (waits) return;
  std::int64_t least = -1;
  for (const std::string& member : task.members) {
    const std::int64_t step = Find(task, member)->step;
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
    effects_.entries.push_back({.event = "trains", .task = task.name, .epoch = task.epoch, .step = least});
  }
  task.has_answer = false;
}

void Coordination::OnEnded(Node& node, const std::string& name, Job& task) {
  node.phase = NodePhase::kEnded;
  const bool is_all = std::ranges::all_of(task.members, [&](const std::string& member) {
    const Node* other = Find(task, member);
    return member == name || other == nullptr || other->phase == NodePhase::kEnded;
  });
  if (!is_all) return;
  task.phase = TaskPhase::kEnded;
  effects_.entries.push_back({.event = "ended", .task = task.name, .epoch = task.epoch});
  Close(task, "the task has ended", true);
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

void Coordination::Lose(const NodeId& id, Node& node, double now, const std::string& why, bool has_machine_gone) {
  Job& task = jobs_[id.task];
  node.phase = NodePhase::kGone;
  Disconnect(node);
  effects_.entries.push_back({.event = "lost", .task = id.task, .node = id.node, .epoch = task.epoch, .reason = why});
  const bool is_wanted = task.phase == TaskPhase::kRuns || task.phase == TaskPhase::kForms;
  const bool has_others = std::ranges::any_of(  // That wait for other tasks.
      nodes_, [&](const auto& other) {
        return other.first.node == id.node && (other.second.connection || other.second.phase == NodePhase::kRuns);
      });
  if (has_machine_gone && is_wanted && !has_others) effects_.lost.push_back(effects_.entries.back());
  if (task.phase == TaskPhase::kRuns && IsMember(task, id.node)) Decide(task, "lost connection", id.node, now);
}

void Coordination::OnTick(double now) {
  for (auto& [id, node] : nodes_) {
    if (now - node.heard <= kDeadAfter || node.phase == NodePhase::kGone || node.phase == NodePhase::kEnded) continue;
    Lose(id, node, now, fmt::format("nothing is heard of it for {} s", kDeadAfter), true);
  }
  PlanShares(now);
  MakeRoom(now);
  for (auto& [name, task] : jobs_) {
    if (task.suspect && now >= task.suspect->until && !MayBeExplained(task)) {
      const Suspect suspect = *std::exchange(task.suspect, std::nullopt);
      Decide(task, suspect.failure, suspect.node, now);
    }
    if (task.phase == TaskPhase::kForms) Form(task, now);
    if (task.phase != TaskPhase::kRuns) continue;
    const bool is_whole = std::ranges::find(task.members, "") == task.members.end();
    if (!is_whole && now - task.changed > kAfterRestart) {
      Stop(task, "a node of the epoch has not come to the new coordinator", false, now);
      continue;
    }
    Resize(task, now);
    if (task.phase == TaskPhase::kRuns && task.pace && task.pace->At(now) == Pace::kHang) OnHang(task, now);
  }
}

// A node that has just been cut off explains a failure of another one, if it does not come back.
bool Coordination::MayBeExplained(const Job& task) const {
  return std::ranges::any_of(task.members, [&](const std::string& member) {
    const Node* node = Find(task, member);
    return node != nullptr && node->phase == NodePhase::kRuns && !node->connection;
  });
}

// At fault is the one that the system has stopped, or the one that is behind.
void Coordination::OnHang(Job& task, double now) {
  std::vector<std::string> behind;
  for (const std::string& member : task.members) {
    if (const Node* node = Find(task, member); node != nullptr && node->stuck >= 0) behind.assign(1, member);
  }
  if (behind.empty()) {
    std::ranges::copy_if(task.members, std::back_inserter(behind), [&](const std::string& member) {
      const Node* node = Find(task, member);
      return node != nullptr && node->step == task.step;
    });
  }
  Decide(task, "hang", behind.size() == 1 ? behind.front() : "", now);
}

CoordinatorEffects Coordination::TakeEffects() { return std::exchange(effects_, {}); }

}  // namespace ucp
