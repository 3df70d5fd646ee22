// The answers to the failures of one task, each the cheapest that can work: a policy without clocks or processes, which
// the simulation runs as a coordinator does.
//
//   severity 3   reattempt in place    fails, or three from one node in 10 minutes: severity 2
//   severity 2   restart the processes fails, or the task ends again soon after, twice: severity 1
//   severity 1   isolate the node, and plan the cluster anew
//
// Three rules more. A node with two failures of severity 2 in an hour is isolated. A step that fails on different nodes
// is the fault of no node: the task is parked. So is a task that would be restarted for the seventh time in an hour.
//
// H7: within an incident, the answers to the failures of a node only go up. It ends with 30 quiet minutes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

namespace ucp {

enum class Answer {
  kNothing,    // It follows from a failure that is being answered.
  kReattempt,  // The same operation once more, in the same processes.
  kRestart,    // The processes of the task, on the same nodes.
  kIsolate,    // The node is left out, and the cluster planned anew.
  kPark,       // The task is stopped, and a person called.
};

struct TaskFailure {
  double at = 0;  // In seconds, of a clock that only goes forward.
  std::optional<std::int64_t> node;
  int severity = 2;
  std::optional<std::int64_t> step;  // That did not end.
  bool operator==(const TaskFailure&) const = default;
};

struct Decision {
  Answer answer = Answer::kNothing;
  std::optional<std::int64_t> node;  // To isolate.
  std::string reason;
};

class Ladder {
 public:
  // The task has failed. While an answer is carried out, other nodes fail because of it: only a lost one is news.
  Decision OnFailure(const TaskFailure& failure);
  // The answer did not lead to an iteration.
  Decision OnAnswerFailed(double at);
  // So many iterations have ended since the last answer.
  void OnIterations(double at, std::int64_t iterations);

  bool operator==(const Ladder&) const = default;

 private:
  struct NodeHistory {
    double last = 0;
    int severity = 3;               // The worst of the incident, lower numbers being worse.
    std::deque<double> reattempts;  // Of the last 10 minutes.
    std::deque<double> failures;    // Of severity 2, of the last hour.
    bool operator==(const NodeHistory&) const = default;
  };

  int Escalated(const TaskFailure& failure, NodeHistory& node);
  bool EndedSoon(double at) const;
  std::optional<Decision> IfNoNodesFault(const TaskFailure& failure, int severity);
  Decision Restart(const TaskFailure& failure, int severity);

  std::map<std::int64_t, NodeHistory> nodes_;  // -1: nobody knows which.
  std::map<std::int64_t, TaskFailure> steps_;  // The last failure of severity 2 at each step.
  std::deque<double> restarts_;                // Of the last hour.
  TaskFailure last_;
  Answer answer_ = Answer::kNothing;  // The last one.
  double answered_ = 0;               // When.
  bool answering_ = false;            // And no iteration has ended since.
  std::int64_t iterations_ = 0;       // Since then.
  int soon_ = 0;                      // How many restarts, one after the other, the task did not outlive.
};

}  // namespace ucp
