// Events are taken in the order of time: failures from the trace, tasks that run again, nodes that are back. Between
// two of them nothing changes, and the worth of the tasks that run is added up.
#include "runtime/healing/simulation.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "compiler/support/check.h"
#include "runtime/healing/allocation.h"

namespace ucp {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kSpare = -1;
constexpr int kAway = -2;

struct RepairedNode {
  double at = 0;
  std::size_t node = 0;
  int task = kSpare;  // That lost it.
  bool operator>(const RepairedNode& other) const { return at > other.at; }
};

struct SimulatedTask {
  double until = 0;    // It does not run before. kNever: it waits for a node.
  double resumed = 0;  // When it last ran again.
  Ladder ladder;
};

class Simulator {
 public:
  Simulator(const Cluster& cluster, const FailureTrace& trace, HealingPolicy policy)
      : cluster_(cluster), trace_(trace), policy_(policy), tasks_(cluster.tasks.size()) {
    Begin();
  }

  Simulation Run() {
    std::size_t failure = 0;
    while (true) {
      const double next = failure < trace_.failures.size() ? trace_.failures[failure].at : kNever;
      const double repaired = repairs_.empty() ? kNever : repairs_.top().at;
      const double resumed = NextResumption();
      const double at = std::min({next, repaired, resumed, trace_.seconds});
      Pass(at);
      if (at >= trace_.seconds) break;
      if (at == resumed) {
        Resume();
      } else if (at == repaired) {
        const RepairedNode back = repairs_.top();
        repairs_.pop();
        Repair(back);
      } else {
        Fail(trace_.failures[failure++]);
      }
      Note();
    }
    return std::move(result_);
  }

 private:
  bool IsByHand() const { return policy_ == HealingPolicy::kRestart || policy_ == HealingPolicy::kWait; }

  void Begin() {
    std::int64_t given = 0;
    for (const Task& task : cluster_.tasks) given += task.nodes;
    if (given == 0) {
      const Allocation best = BestAllocation(cluster_, {});
      for (std::size_t i = 0; i < tasks_.size(); ++i) cluster_.tasks[i].nodes = best.nodes[i];
    }
    first_ = NodesNow();
    owners_.assign(static_cast<std::size_t>(cluster_.nodes), kSpare);
    std::size_t node = 0;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      for (std::int64_t k = 0; k < cluster_.tasks[i].nodes; ++k) owners_[node++] = static_cast<int>(i);
    }
    result_.ideal = Flops() * trace_.seconds;
    Note();
  }

  double Flops() const {
    double flops = 0;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].until <= now_) flops += Worth(cluster_.tasks[i], cluster_.tasks[i].nodes);
    }
    return flops;
  }

  void Note() { result_.moments.push_back({now_, cluster_.nodes, Flops()}); }

  void Pass(double at) {
    result_.flop += Flops() * (at - now_);
    for (const SimulatedTask& task : tasks_) result_.down += std::min(std::max(task.until - now_, 0.0), at - now_);
    now_ = at;
  }

  double NextResumption() const {
    double next = kNever;
    for (const SimulatedTask& task : tasks_) {
      if (task.until > now_) next = std::min(next, task.until);
    }
    return next;
  }

  void Resume() {
    for (SimulatedTask& task : tasks_) {
      if (task.until == now_) task.resumed = now_;
    }
  }

  // The task does not run for so long, from now on at least.
  void Stop(std::size_t task, double seconds) { tasks_[task].until = std::max(now_ + seconds, tasks_[task].until); }

  double DetectionSeconds(const FailureKind& kind) const {
    const TraceTimes& times = trace_.times;
    if (IsByHand()) return kind.method == DetectionMethod::kNodeHealth ? times.node_health : times.timeout;
    switch (kind.method) {
      case DetectionMethod::kNodeHealth:
        return times.node_health;
      case DetectionMethod::kSupervision:
        return times.supervision;
      case DetectionMethod::kException:
        return times.exception;
      case DetectionMethod::kStatistics:
        return 3 * times.iteration;
    }
    UCP_UNREACHABLE();
  }

  // From the decision until new iterations: the start, and what was computed since the last version of the state.
  double RestartSeconds(std::size_t task, std::int64_t from, std::int64_t to, bool is_hit) const {
    const TraceTimes& times = trace_.times;
    if (IsByHand()) return times.resubmit + times.checkpoint / 2;
    return TransitionSeconds(cluster_.tasks[task], from, to, is_hit, cluster_.network) + 1.5 * times.iteration;
  }

  void Fail(const NodeFailure& failure) {
    const auto node = static_cast<std::size_t>(failure.node);
    const int owner = owners_[node];
    if (owner == kAway) {
      ++result_.ignored;
    } else if (owner == kSpare) {
      if (failure.kind->severity == 1) LoseNode(failure, {ClusterEvent::kSpareLost, 0}, 0);
    } else {
      Hit(failure, static_cast<std::size_t>(owner));
    }
  }

  void Hit(const NodeFailure& failure, std::size_t task) {
    const Answer answer = AnswerTo(failure, task);
    ++result_.answers[static_cast<std::size_t>(answer)];
    const double found = DetectionSeconds(*failure.kind);
    const std::int64_t nodes = cluster_.tasks[task].nodes;
    switch (answer) {
      case Answer::kReattempt:
        Stop(task, found + trace_.times.reattempt);
        break;
      case Answer::kNothing:  // It fails while it starts, which begins again.
      case Answer::kRestart:
        Stop(task, found + RestartSeconds(task, nodes, nodes, false));
        break;
      case Answer::kIsolate:
        LoseNode(failure, {ClusterEvent::kNodeLost, task}, found);
        break;
      case Answer::kPark:
        Stop(task, found + trace_.times.person);
        tasks_[task].ladder = Ladder();
        break;
    }
  }

  Answer AnswerTo(const NodeFailure& failure, std::size_t task) {
    if (IsByHand()) return failure.kind->severity == 1 ? Answer::kIsolate : Answer::kRestart;
    SimulatedTask& state = tasks_[task];
    const auto iterations = static_cast<std::int64_t>((now_ - state.resumed) / trace_.times.iteration);
    if (state.until <= now_ && iterations > 0) state.ladder.OnIterations(now_, iterations);
    return state.ladder
        .OnFailure({.at = now_, .node = failure.node, .severity = failure.kind->severity, .step = std::nullopt})
        .answer;
  }

  void LoseNode(const NodeFailure& failure, const NextEvent& event, double found) {
    const auto node = static_cast<std::size_t>(failure.node);
    repairs_.push({now_ + failure.repair, node, owners_[node]});
    std::vector<std::int64_t> nodes = NodesNow();
    const int owner = owners_[node];
    if (policy_ == HealingPolicy::kUcp) {
      nodes = BestAllocation(cluster_, event).nodes;
    } else if (owner != kSpare && !HasSpare()) {
      --nodes[static_cast<std::size_t>(owner)];
    }
    owners_[node] = kAway;
    --cluster_.nodes;
    Change(nodes, owner, found);
  }

  void Repair(const RepairedNode& back) {
    std::vector<std::int64_t> nodes = NodesNow();
    if (policy_ == HealingPolicy::kUcp) {
      nodes = BestAllocation(cluster_, {ClusterEvent::kNodeJoins}).nodes;
    } else if (back.task != kSpare && IsShort(static_cast<std::size_t>(back.task))) {
      ++nodes[static_cast<std::size_t>(back.task)];
    }
    owners_[back.node] = kSpare;
    ++cluster_.nodes;
    Change(nodes, kSpare, 0);
  }

  bool HasSpare() const { return std::ranges::find(owners_, kSpare) != owners_.end(); }
  // It has fewer nodes than it began with.
  bool IsShort(std::size_t task) const { return cluster_.tasks[task].nodes < first_[task]; }

  std::vector<std::int64_t> NodesNow() const {
    std::vector<std::int64_t> nodes;
    for (const Task& task : cluster_.tasks) nodes.push_back(task.nodes);
    return nodes;
  }

  // The tasks have so many nodes from now on. `hit`: the task that failed, as was found after so many seconds.
  void Change(const std::vector<std::int64_t>& nodes, int hit, double found) {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const std::int64_t before = cluster_.tasks[i].nodes;
      const bool is_hit = static_cast<int>(i) == hit;
      if (nodes[i] != before || is_hit) Move(i, before, nodes[i], is_hit, found);
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i) Give(i, nodes[i]);
  }

  void Move(std::size_t i, std::int64_t before, std::int64_t after, bool is_hit, double found) {
    SimulatedTask& task = tasks_[i];
    if (policy_ == HealingPolicy::kWait && after < first_[i]) {
      task.until = kNever;
      return;
    }
    if (task.until == kNever) task.until = now_;
    Stop(i, (is_hit ? found : 0) + RestartSeconds(i, before, after, is_hit));
    Take(i, after);
  }

  // Nodes beyond so many become spare ones.
  void Take(std::size_t task, std::int64_t most) {
    std::int64_t kept = 0;
    for (int& owner : owners_) {
      if (owner == static_cast<int>(task) && ++kept > most) owner = kSpare;
    }
  }

  // As many nodes as it should have, from spare ones.
  void Give(std::size_t task, std::int64_t nodes) {
    auto has = static_cast<std::int64_t>(std::ranges::count(owners_, static_cast<int>(task)));
    for (int& owner : owners_) {
      if (owner != kSpare || has >= nodes) continue;
      owner = static_cast<int>(task);
      ++has;
    }
    UCP_CHECK(has == nodes, "task {} has {} nodes, and should have {}", task, has, nodes);
    cluster_.tasks[task].nodes = nodes;
  }

  Cluster cluster_;
  const FailureTrace& trace_;
  const HealingPolicy policy_;
  std::vector<SimulatedTask> tasks_;
  std::vector<std::int64_t> first_;
  std::vector<int> owners_;  // By node: a task, kSpare or kAway.
  std::priority_queue<RepairedNode, std::vector<RepairedNode>, std::greater<>> repairs_;
  double now_ = 0;
  Simulation result_;
};

}  // namespace

Simulation Simulate(const Cluster& cluster, const FailureTrace& trace, HealingPolicy policy) {
  return Simulator(cluster, trace, policy).Run();
}

}  // namespace ucp
