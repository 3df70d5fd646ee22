#include "runtime/healing/ladder.h"

#include <fmt/format.h>

#include <algorithm>

namespace ucp {
namespace {

constexpr double kMinute = 60;
constexpr double kHour = 60 * kMinute;
constexpr double kQuiet = 30 * kMinute;
constexpr double kReattemptSpan = 10 * kMinute;
constexpr std::size_t kReattempts = 3;
constexpr double kSoon = 5 * kMinute;
constexpr std::int64_t kSoonIterations = 10;
constexpr int kMostSoon = 2;
constexpr std::size_t kMostOfNode = 2;
constexpr std::size_t kMostRestarts = 6;
constexpr std::int64_t kNobody = -1;

void KeepSince(std::deque<double>& times, double since) {
  while (!times.empty() && times.front() < since) times.pop_front();
}

}  // namespace

bool Ladder::EndedSoon(double at) const {
  if (answer_ != Answer::kRestart && answer_ != Answer::kIsolate) return false;
  return iterations_ < kSoonIterations || at - answered_ < kSoon;
}

// The severity that the failure has with what was before it.
int Ladder::Escalated(const TaskFailure& failure, NodeHistory& node) {
  if (failure.at - node.last > kQuiet) node = {.last = 0, .severity = 3, .reattempts = {}, .failures = node.failures};
  node.last = failure.at;
  int severity = std::min(failure.severity, node.severity);  // H7.
  if (severity == 3) {
    KeepSince(node.reattempts, failure.at - kReattemptSpan);
    node.reattempts.push_back(failure.at);
    if (node.reattempts.size() >= kReattempts) severity = 2;
  }
  if (severity == 2) {
    KeepSince(node.failures, failure.at - kHour);
    node.failures.push_back(failure.at);
    const bool is_known = failure.node.has_value();
    if ((is_known && node.failures.size() >= kMostOfNode) || soon_ >= kMostSoon) severity = 1;
  }
  node.severity = severity;
  return severity;
}

// The same data twice.
std::optional<Decision> Ladder::IfNoNodesFault(const TaskFailure& failure, int severity) {
  if (failure.severity == 1 || severity == 3 || !failure.step || !failure.node) return std::nullopt;
  const auto before = steps_.find(*failure.step);
  const bool is_known = before != steps_.end() && failure.at - before->second.at <= kHour;
  const bool is_other = is_known && *before->second.node != *failure.node;
  steps_.insert_or_assign(*failure.step, failure);
  std::erase_if(steps_, [&](const auto& step) { return failure.at - step.second.at > kHour; });
  if (!is_other) return std::nullopt;
  return Decision{Answer::kPark, std::nullopt, fmt::format("step {} fails on different nodes", *failure.step)};
}

Decision Ladder::Restart(const TaskFailure& failure, int severity) {
  KeepSince(restarts_, failure.at - kHour);
  if (restarts_.size() >= kMostRestarts) {
    return {Answer::kPark, std::nullopt, fmt::format("{} restarts in an hour", restarts_.size())};
  }
  if (severity == 1 && !failure.node) {
    return {Answer::kPark, std::nullopt, "restarts do not help, and no node is known to be at fault"};
  }
  restarts_.push_back(failure.at);
  if (severity == 2) return {Answer::kRestart, std::nullopt, "the processes start again"};
  nodes_.erase(*failure.node);
  soon_ = 0;
  return {Answer::kIsolate, failure.node, failure.severity == 1 ? "the node is lost" : "the node fails again"};
}

Decision Ladder::OnFailure(const TaskFailure& failure) {
  if (answering_ && failure.severity != 1) return {Answer::kNothing, std::nullopt, "an answer is being carried out"};
  soon_ = EndedSoon(failure.at) ? soon_ + 1 : 0;
  const int severity = Escalated(failure, nodes_[failure.node.value_or(kNobody)]);
  Decision decision{Answer::kReattempt, std::nullopt, "it may have passed"};
  if (std::optional<Decision> parked = IfNoNodesFault(failure, severity)) {
    decision = std::move(*parked);
  } else if (severity < 3) {
    decision = Restart(failure, severity);
  }
  last_ = failure;
  answer_ = decision.answer;
  answered_ = failure.at;
  answering_ = true;
  iterations_ = 0;
  return decision;
}

Decision Ladder::OnAnswerFailed(double at) {
  answering_ = false;
  TaskFailure failure = last_;
  failure.at = at;
  if (answer_ == Answer::kReattempt) failure.severity = 2;
  if (answer_ == Answer::kRestart) failure.severity = std::min(failure.severity, 2);
  // A lost node that was left out is not lost again: whatever failed now, failed on the others.
  if (answer_ == Answer::kIsolate) failure = {.at = at, .node = std::nullopt, .severity = 2, .step = std::nullopt};
  return OnFailure(failure);
}

void Ladder::OnIterations(double at, std::int64_t iterations) {
  answering_ = false;
  iterations_ = iterations;
  if (!EndedSoon(at)) soon_ = 0;
}

}  // namespace ucp
