// Allocations for one event are found from tables of sums: `front[i]` of the first i tasks, `back[i]` of those from i
// on. A task whose reward differs from the tables', or that is missing in them, is put between the two halves.
#include "runtime/healing/allocation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "compiler/support/check.h"

namespace ucp {
namespace {

using Scores = std::vector<std::int64_t>;  // By number of nodes.

constexpr std::int64_t kImpossible = std::numeric_limits<std::int64_t>::min() / 4;
constexpr double kUnits = 17'592'186'044'416;  // 2^44: the largest worth.
// The price of moving a task, beside its time: more than what rounding can make of the scores of all tasks together.
constexpr std::int64_t kMove = 1 << 11;

struct Problem {
  std::int64_t nodes = 0;
  std::vector<const Task*> tasks;  // By their number; nothing: it ended.
  std::vector<std::size_t> waiting;
  std::optional<std::size_t> hit;
};

// The highest worth that any task can have: the unit of all scores of a cluster.
double LargestWorth(const Cluster& cluster) {
  double largest = 0;
  for (const std::vector<Task>* tasks : {&cluster.tasks, &cluster.starts}) {
    for (const Task& task : *tasks) largest = std::max(largest, Worth(task, cluster.nodes + 1));
  }
  return largest > 0 ? largest : 1;
}

bool Waits(const Problem& problem, std::size_t task) {
  return std::ranges::find(problem.waiting, task) != problem.waiting.end();
}

std::int64_t Promised(const Problem& problem) {
  std::int64_t nodes = 0;
  for (std::size_t i = 0; i < problem.tasks.size(); ++i) {
    if (problem.tasks[i] != nullptr && !Waits(problem, i)) nodes += Promise(*problem.tasks[i]);
  }
  return nodes;
}

// Tasks wait, one after the other, until the promises of the others fit.
void LetWait(Problem& problem, std::size_t started) {
  while (Promised(problem) > problem.nodes) {
    std::optional<std::size_t> least;
    for (std::size_t i = 0; i < problem.tasks.size(); ++i) {
      const Task* task = problem.tasks[i];
      if (task == nullptr || Promise(*task) == 0 || Waits(problem, i)) continue;
      if (i == started || !least || task->weight <= problem.tasks[*least]->weight) least = i;
    }
    UCP_CHECK(least.has_value(), "{} nodes are promised, of {}, and no task can wait", Promised(problem),
              problem.nodes);
    problem.waiting.push_back(*least);
  }
  std::ranges::sort(problem.waiting);
}

Problem ProblemOf(const Cluster& cluster, const NextEvent& event) {
  Problem problem;
  problem.nodes = cluster.nodes;
  for (const Task& task : cluster.tasks) problem.tasks.push_back(&task);
  std::size_t started = cluster.tasks.size();
  switch (event.kind) {
    case ClusterEvent::kNothing:
      break;
    case ClusterEvent::kNodeLost:
      --problem.nodes;
      problem.hit = event.task;
      break;
    case ClusterEvent::kSpareLost:
      --problem.nodes;
      break;
    case ClusterEvent::kNodeJoins:
      ++problem.nodes;
      break;
    case ClusterEvent::kTaskEnds:
      problem.tasks[event.task] = nullptr;
      break;
    case ClusterEvent::kTaskStarts:
      problem.tasks.push_back(&cluster.starts[event.task]);
      break;
  }
  LetWait(problem, started);
  return problem;
}

// The score of each number of nodes, from 0 to those of the problem.
Scores ScoresOf(const Cluster& cluster, const Problem& problem, const Task& task, bool is_hit) {
  const double unit = LargestWorth(cluster) / kUnits;
  Scores scores(static_cast<std::size_t>(problem.nodes) + 1, kImpossible);
  for (std::int64_t k = Promise(task); k <= problem.nodes; ++k) {
    const double reward = Reward(cluster, task, k, problem.nodes, is_hit);
    const std::int64_t moved = k == task.nodes && !is_hit ? 0 : kMove;
    scores[static_cast<std::size_t>(k)] = std::llround(reward / unit) - moved;
  }
  return scores;
}

// Both together: max over k of a[j-k] + b[k].
Scores Together(const Scores& a, const Scores& b) {
  Scores sums(a.size(), kImpossible);
  const auto possible = std::ranges::find_if(a, [](std::int64_t score) { return score > kImpossible / 2; });
  const auto first = static_cast<std::size_t>(possible - a.begin());
  for (std::size_t k = 0; k < b.size(); ++k) {
    if (b[k] <= kImpossible / 2) continue;
    const std::int64_t more = b[k];
    for (std::size_t j = k + first; j < sums.size(); ++j) sums[j] = std::max(sums[j], a[j - k] + more);
  }
  return sums;
}

// How many of `j` nodes `b` has in the best sum with `a`. Must be possible.
std::size_t ShareOf(const Scores& b, const Scores& a, std::size_t j) {
  std::size_t best = 0;
  for (std::size_t k = 1; k <= j; ++k) {
    if (a[j - k] + b[k] > a[j - best] + b[best]) best = k;
  }
  return best;
}

// Tables for all tasks of a problem that neither wait nor ended.
class Tables {
 public:
  Tables(const Cluster& cluster, const Problem& problem) : cluster_(cluster), problem_(problem) {
    for (std::size_t i = 0; i < problem.tasks.size(); ++i) {
      const Task* task = problem.tasks[i];
      scores_.push_back(task == nullptr || Waits(problem, i) ? Scores()
                                                             : ScoresOf(cluster, problem, *task, problem.hit == i));
    }
    front_.assign(1, Scores(static_cast<std::size_t>(problem.nodes) + 1));
    for (const Scores& scores : scores_) {
      front_.push_back(scores.empty() ? front_.back() : Together(front_.back(), scores));
    }
  }

  void MakeBack() {
    back_.assign(scores_.size() + 1, front_.front());
    for (std::size_t i = scores_.size(); i > 0; --i) {
      back_[i - 1] = scores_[i - 1].empty() ? back_[i] : Together(back_[i], scores_[i - 1]);
    }
  }

  Allocation Best() const {
    const std::size_t nodes = front_.front().size() - 1;
    Allocation allocation = Nobody();
    allocation.score = front_.back()[nodes];
    TraceFront(scores_.size(), nodes, allocation);
    return allocation;
  }

  // With task `i` hit. Needs MakeBack().
  Allocation WithHit(std::size_t i) const {
    const std::size_t nodes = front_.front().size() - 1;
    const Scores hit = ScoresOf(cluster_, problem_, *problem_.tasks[i], true);
    const Scores others = Together(front_[i], back_[i + 1]);
    Allocation allocation = Nobody();
    const std::size_t share = ShareOf(hit, others, nodes);
    allocation.nodes[i] = static_cast<std::int64_t>(share);
    allocation.score = others[nodes - share] + hit[share];
    TraceWithout(i, nodes - share, allocation);
    return allocation;
  }

  // Without task `i`. Needs MakeBack().
  Allocation Without(std::size_t i) const {
    const std::size_t nodes = front_.front().size() - 1;
    Allocation allocation = Nobody();
    const std::size_t share = ShareOf(back_[i + 1], front_[i], nodes);
    allocation.score = front_[i][nodes - share] + back_[i + 1][share];
    TraceWithout(i, nodes, allocation);
    return allocation;
  }

  // With one more behind them.
  Allocation With(const Task& task) const {
    const std::size_t nodes = front_.front().size() - 1;
    const Scores scores = ScoresOf(cluster_, problem_, task, false);
    Allocation allocation = Nobody();
    const std::size_t share = ShareOf(scores, front_.back(), nodes);
    allocation.score = front_.back()[nodes - share] + scores[share];
    TraceFront(scores_.size(), nodes - share, allocation);
    allocation.nodes.push_back(static_cast<std::int64_t>(share));
    return allocation;
  }

 private:
  Allocation Nobody() const {
    return {.nodes = std::vector<std::int64_t>(scores_.size()), .waiting = problem_.waiting, .score = 0};
  }

  // The first `tasks` tasks have so many nodes.
  void TraceFront(std::size_t tasks, std::size_t nodes, Allocation& allocation) const {
    for (std::size_t i = tasks; i > 0; --i) {
      if (scores_[i - 1].empty()) continue;
      const std::size_t share = ShareOf(scores_[i - 1], front_[i - 1], nodes);
      allocation.nodes[i - 1] = static_cast<std::int64_t>(share);
      nodes -= share;
    }
  }

  void TraceWithout(std::size_t i, std::size_t nodes, Allocation& allocation) const {
    std::size_t behind = ShareOf(back_[i + 1], front_[i], nodes);
    TraceFront(i, nodes - behind, allocation);
    for (std::size_t next = i + 1; next < scores_.size(); ++next) {
      if (scores_[next].empty()) continue;
      const std::size_t share = ShareOf(scores_[next], back_[next + 1], behind);
      allocation.nodes[next] = static_cast<std::int64_t>(share);
      behind -= share;
    }
  }

  const Cluster& cluster_;
  const Problem& problem_;
  std::vector<Scores> scores_;  // By task; empty: it has no node.
  std::vector<Scores> front_;
  std::vector<Scores> back_;
};

}  // namespace

Allocation BestAllocation(const Cluster& cluster, const NextEvent& event) {
  const Problem problem = ProblemOf(cluster, event);
  return Tables(cluster, problem).Best();
}

double WorthOf(const Cluster& cluster, const NextEvent& event, const Allocation& allocation) {
  const Problem problem = ProblemOf(cluster, event);
  double worth = 0;
  for (std::size_t i = 0; i < problem.tasks.size(); ++i) {
    if (problem.tasks[i] != nullptr) worth += Worth(*problem.tasks[i], allocation.nodes[i]);
  }
  return worth;
}

// Where tasks wait, the tables of the others do not serve: those events are computed by themselves, which is quick,
// since there is little choice.
NextAllocations::NextAllocations(const Cluster& cluster) {
  const Problem now = ProblemOf(cluster, {});
  const Problem fewer = ProblemOf(cluster, {ClusterEvent::kSpareLost});
  Tables tables_now(cluster, now);
  Tables tables_fewer(cluster, fewer);
  tables_now.MakeBack();
  tables_fewer.MakeBack();
  now_ = tables_now.Best();
  spare_lost_ = tables_fewer.Best();
  node_joins_ = BestAllocation(cluster, {ClusterEvent::kNodeJoins});
  for (std::size_t i = 0; i < cluster.tasks.size(); ++i) {
    const NextEvent lost{ClusterEvent::kNodeLost, i};
    const NextEvent ends{ClusterEvent::kTaskEnds, i};
    node_lost_.push_back(fewer.waiting.empty() ? tables_fewer.WithHit(i) : BestAllocation(cluster, lost));
    task_ends_.push_back(now.waiting.empty() ? tables_now.Without(i) : BestAllocation(cluster, ends));
  }
  for (std::size_t i = 0; i < cluster.starts.size(); ++i) {
    const NextEvent starts{ClusterEvent::kTaskStarts, i};
    const bool fits = now.waiting.empty() && Promised(now) + Promise(cluster.starts[i]) <= cluster.nodes;
    task_starts_.push_back(fits ? tables_now.With(cluster.starts[i]) : BestAllocation(cluster, starts));
  }
}

const Allocation& NextAllocations::After(const NextEvent& event) const {
  switch (event.kind) {
    case ClusterEvent::kNothing:
      return now_;
    case ClusterEvent::kNodeLost:
      return node_lost_[event.task];
    case ClusterEvent::kSpareLost:
      return spare_lost_;
    case ClusterEvent::kNodeJoins:
      return node_joins_;
    case ClusterEvent::kTaskEnds:
      return task_ends_[event.task];
    case ClusterEvent::kTaskStarts:
      return task_starts_[event.task];
  }
  UCP_UNREACHABLE();
}

}  // namespace ucp
