// How many of a cluster's nodes each task should have, by what its file of tasks says that they are worth
// (runtime/healing/allocation.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/coordinator/coordination.h"

namespace ucp {

// That have an agent, or processes, and are not left out.
std::set<std::string> Coordination::NodesThatAreThere() const {
  std::set<std::string> nodes;
  for (const auto& [id, node] : nodes_) {
    const bool is_there = node.connection || node.phase == NodePhase::kRuns;
    if (is_there && node.left_out.empty()) nodes.insert(id.node);
  }
  return nodes;
}

// In the order of the file.
std::vector<Coordination::Job*> Coordination::JobsThatAreThere() {
  std::vector<Job*> jobs;
  for (const Task& task : cluster_->tasks) {
    const auto job = jobs_.find(task.name);
    if (job == jobs_.end()) continue;
    const bool has_agents = std::ranges::any_of(nodes_, [&](const auto& node) {
      return node.first.task == task.name && (node.second.connection || node.second.phase == NodePhase::kRuns);
    });
    const bool is_over = job->second.phase == TaskPhase::kEnded || job->second.phase == TaskPhase::kParked;
    if (has_agents && !is_over) jobs.push_back(&job->second);
  }
  return jobs;
}

std::vector<std::string> Coordination::MembersThatAreThere(const Job& job) const {
  std::vector<std::string> members;
  std::ranges::copy_if(job.members, std::back_inserter(members), [&](const std::string& member) {
    const Node* node = Find(job, member);
    return node != nullptr && node->left_out.empty() && (node->connection || node->phase == NodePhase::kRuns);
  });
  return members;
}

// The first task that has lost a node stops in any case, which the event says.
Cluster Coordination::ClusterNow(const std::vector<Job*>& jobs, std::int64_t nodes, NextEvent& event) const {
  Cluster now{.node_mtbf = cluster_->node_mtbf, .network = cluster_->network};
  std::int64_t promised = 0;
  std::int64_t used = 0;
  for (const Job* job : jobs) {
    Task task = *std::ranges::find(cluster_->tasks, job->name, &Task::name);
    task.least_nodes = std::max(task.least_nodes, job->least);
    task.speeds.resize(std::min(task.speeds.size(), static_cast<std::size_t>(job->most) + 1));
    task.nodes = std::ssize(MembersThatAreThere(*job));
    used += task.nodes;
    promised += Promise(task);
    if (event.kind == ClusterEvent::kNothing && task.nodes < std::ssize(job->members)) {
      event = {ClusterEvent::kNodeLost, now.tasks.size()};
      ++task.nodes;
    }
    now.tasks.push_back(std::move(task));
  }
  now.nodes = std::max(used, std::min(nodes, std::max(nodes - spares_, promised)));
  if (event.kind == ClusterEvent::kNodeLost) ++now.nodes;
  return now;
}

void Coordination::PlanShares(double now) {
  if (cluster_ == nullptr || now < plans_from_) return;
  const std::set<std::string> nodes = NodesThatAreThere();
  const std::vector<Job*> jobs = JobsThatAreThere();
  std::string planned_for = fmt::format("{}", fmt::join(nodes, "\n"));
  for (const Job* job : jobs) planned_for += fmt::format("\n\n{}\n{} {}", job->name, job->least, job->most);
  if (planned_for == planned_for_) return;
  planned_for_ = std::move(planned_for);
  NextEvent event;
  const Cluster cluster = ClusterNow(jobs, std::ssize(nodes), event);
  const Allocation best = BestAllocation(cluster, event);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i]->share == best.nodes[i]) continue;
    jobs[i]->share = best.nodes[i];
    jobs[i]->shared = now;
    effects_.entries.push_back(
        {.event = "share",
         .task = jobs[i]->name,
         .reason = fmt::format("{} {} for {} {}", nodes.size(), nodes.size() == 1 ? "node" : "nodes", jobs.size(),
                               jobs.size() == 1 ? "task" : "tasks"),
         .share = best.nodes[i]});
  }
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
    const std::vector<std::string> members = MembersThatAreThere(other);
    const auto place = std::ranges::find(members, node);
    return place != members.end() && place - members.begin() < other.share.value_or(0);
  });
}

}  // namespace ucp
