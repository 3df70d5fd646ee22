// How many of a cluster's nodes each task should have, by what its file of tasks says that they are worth
// (runtime/healing/allocation.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/coordinator/coordination.h"

namespace ucp {
namespace {

constexpr double kMayComeBack = 5;
constexpr double kForOtherNodes = 10;  // After a plan.
constexpr double kForSlowStops = 120;  // … while another task stops.

}  // namespace

// An agent whose connection has just broken may come back.
bool Coordination::IsThere(const Node& node, double now) {
  const bool is_there = node.connection || node.phase == NodePhase::kRuns || now - node.heard <= kMayComeBack;
  return is_there && node.left_out.empty();
}

std::set<std::string> Coordination::NodesThatAreThere(double now) const {
  std::set<std::string> nodes;
  for (const auto& [id, node] : nodes_) {
    if (IsThere(node, now)) nodes.insert(id.node);
  }
  return nodes;
}

// A member that has ended has done its part.
std::vector<std::string> Coordination::MembersThatAreThere(const Job& job) const {
  std::vector<std::string> members;
  std::ranges::copy_if(job.members, std::back_inserter(members), [&](const std::string& member) {
    const Node* node = Find(job, member);
    if (node == nullptr || !node->left_out.empty()) return false;
    return node->connection || node->phase == NodePhase::kRuns || node->phase == NodePhase::kEnded;
  });
  return members;
}

// The most nodes that it can have.
std::int64_t Coordination::AgentsOf(const Job& job, double now) const {
  const auto count = std::ranges::count_if(
      nodes_, [&](const auto& node) { return node.first.task == job.name && IsThere(node.second, now); });
  return std::max<std::int64_t>(count, std::ssize(MembersThatAreThere(job)));
}

const Task& Coordination::PlannedTask(const Job& job) const {
  return *std::ranges::find(cluster_->tasks, job.name, &Task::name);
}

// That have enough agents, in the order of the file.
std::vector<Coordination::Job*> Coordination::JobsThatAreThere(double now) {
  std::vector<Job*> jobs;
  for (const Task& task : cluster_->tasks) {
    const auto found = jobs_.find(task.name);
    if (found == jobs_.end()) continue;
    Job& job = found->second;
    const bool is_over = job.phase == TaskPhase::kEnded || job.phase == TaskPhase::kParked;
    const std::int64_t agents = is_over ? 0 : AgentsOf(job, now);
    if (agents > 0 && agents >= std::max(task.least_nodes, job.least)) jobs.push_back(&job);
  }
  return jobs;
}

// The first task that has lost a node stops in any case, which the event says.
Cluster Coordination::ClusterNow(const std::vector<Job*>& jobs, std::int64_t nodes, NextEvent& event,
                                 double now) const {
  Cluster cluster{.node_mtbf = cluster_->node_mtbf, .network = cluster_->network};
  std::int64_t promised = 0;
  std::int64_t used = 0;
  for (const Job* job : jobs) {
    Task task = PlannedTask(*job);
    const std::int64_t most = std::min(job->most, AgentsOf(*job, now));
    task.least_nodes = std::max(task.least_nodes, job->least);
    task.speeds.resize(std::min(task.speeds.size(), static_cast<std::size_t>(most) + 1));
    task.nodes = std::ssize(MembersThatAreThere(*job));
    used += task.nodes;
    promised += Promise(task);
    const bool has_lost = task.nodes < std::ssize(job->members) && job->share != 0;
    if (event.kind == ClusterEvent::kNothing && has_lost) {
      event = {ClusterEvent::kNodeLost, cluster.tasks.size()};
      ++task.nodes;
      task.laid_out = std::ssize(job->members);
    }
    cluster.tasks.push_back(std::move(task));
  }
  cluster.nodes = std::max(used, std::min(nodes, std::max(nodes - spares_, promised)));
  if (event.kind == ClusterEvent::kNodeLost) ++cluster.nodes;
  return cluster;
}

void Coordination::PlanShares(double now) {
  if (cluster_ == nullptr || now < plans_from_) return;
  const std::set<std::string> nodes = NodesThatAreThere(now);
  const std::vector<Job*> jobs = JobsThatAreThere(now);
  std::string planned_for = fmt::format("{}", fmt::join(nodes, "\n"));
  for (const Job* job : jobs) {
    planned_for += fmt::format("\n\n{}\n{} {} {}", job->name, job->least, job->most, AgentsOf(*job, now));
  }
  if (planned_for == planned_for_) return;
  planned_for_ = std::move(planned_for);
  planned_ = now;
  NextEvent event;
  const Cluster cluster = ClusterNow(jobs, std::ssize(nodes), event, now);
  const Allocation best = BestAllocation(cluster, event);
  const std::string reason = fmt::format("{} {} for {} {}", nodes.size(), nodes.size() == 1 ? "node" : "nodes",
                                         jobs.size(), jobs.size() == 1 ? "task" : "tasks");
  for (auto& [name, job] : jobs_) {
    const auto planned = std::ranges::find(jobs, &job);
    if (planned == jobs.end() && job.phase != TaskPhase::kForms) continue;
    const std::int64_t share = planned == jobs.end() ? 0 : best.nodes[static_cast<std::size_t>(planned - jobs.begin())];
    if (job.share == share) continue;
    job.share = share;
    effects_.entries.push_back({.event = "share", .task = name, .reason = reason, .share = share});
  }
}

// Soon after a plan others give nodes up, which takes an iteration.
bool Coordination::MayGetNodes(const Job& job, double now) const {
  if (now - planned_ < kForOtherNodes) return true;
  return now - planned_ < kForSlowStops &&
         std::ranges::any_of(
             jobs_,
             [&](const auto& other) {
               return other.first != job.name && other.second.phase == TaskPhase::kForms && HasProcesses(other.first);
             });
}

void Coordination::FindNeeds(double now) {
  needed_.clear();
  for (const auto& [name, job] : jobs_) {
    const bool waits = job.phase == TaskPhase::kForms && job.share.value_or(0) > 0 &&
                       now - job.changed > kForOtherNodes && !HasProcesses(name) && !MayGetNodes(job, now);
    if (!waits) continue;
    for (const auto& [id, node] : nodes_) {
      if (id.task == name && node.connection && node.phase == NodePhase::kWaits) needed_[id.node].insert(name);
    }
  }
}

// Another task waits for nodes, and cannot begin without some that others have.
bool Coordination::IsNeeded(const Job& job, const std::string& node) const {
  const auto needed = needed_.find(node);
  return needed != needed_.end() && needed->second.size() > needed->second.count(job.name);
}

void Coordination::PutNeededLast(const Job& job, std::vector<std::string>& nodes) const {
  std::ranges::stable_partition(nodes, [&](const std::string& node) { return !IsNeeded(job, node); });
}

// A task begins again on other nodes, where one that waits can use none but its.
void Coordination::MakeRoom(double now) {
  if (cluster_ == nullptr) return;
  FindNeeds(now);
  if (needed_.empty()) return;
  for (auto& [name, job] : jobs_) {
    if (job.phase != TaskPhase::kRuns || job.step < 0) continue;
    const auto needed =
        std::ranges::find_if(job.members, [&, &of = job](const std::string& member) { return IsNeeded(of, member); });
    if (needed == job.members.end()) continue;
    const std::vector<std::string> ready = ReadyNodes(job);
    if (ready.empty() || IsNeeded(job, ready.front())) continue;
    Stop(job, fmt::format("another task needs node {}", *needed), false, now);
  }
}

bool Coordination::WorksForAnother(const Job& job, const std::string& node) const {
  return std::ranges::any_of(nodes_, [&](const auto& other) {
    return other.first.node == node && other.first.task != job.name && other.second.phase == NodePhase::kRuns;
  });
}

// It works for another task, or was in the last epoch of one that forms anew and may have it again.
bool Coordination::IsTaken(const Job& job, const std::string& node) const {
  if (cluster_ == nullptr) return false;
  return std::ranges::any_of(jobs_, [&](const auto& entry) {
    const auto& [name, other] = entry;
    if (name == job.name) return false;
    const Node* found = Find(other, node);
    if (found != nullptr && found->phase == NodePhase::kRuns) return true;
    if (other.phase != TaskPhase::kForms) return false;
    std::vector<std::string> members = MembersThatAreThere(other);
    PutNeededLast(other, members);
    const auto place = std::ranges::find(members, node);
    return place != members.end() && place - members.begin() < other.share.value_or(0);
  });
}

}  // namespace ucp
