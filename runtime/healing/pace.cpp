#include "runtime/healing/pace.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace ucp {
namespace {

constexpr std::size_t kArmed = 10;
constexpr std::size_t kRecent = 30;
constexpr std::size_t kBefore = 100;
constexpr double kSlow = 1.1;
constexpr double kHang = 3;
constexpr double kDeviations = 6;
constexpr double kShortest = 10;
constexpr double kUnknown = 30 * 60;
constexpr int kLearned = 2;

double MeanOf(const std::deque<double>& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The median distance from the median: long iterations, being few, do not move it.
double MedianDeviation(std::vector<double> values) {
  const double median = MedianOf(values);
  for (double& value : values) value = std::abs(value - median);
  return MedianOf(std::move(values));
}

}  // namespace

double TaskPace::Forward(double at) {
  const double passed = std::max(at - last_, 0.0);
  last_ += passed;
  return passed;
}

void TaskPace::OnPhase(const std::string& name, double at, std::optional<double> most) {
  OnPhaseEnds(at);
  phases_[name].most = most;
  phase_ = name;
}

void TaskPace::OnPhaseEnds(double at) {
  const double passed = Forward(at);
  if (!phase_) return;
  LongPhase& phase = phases_[*phase_];
  ++phase.times;
  phase.longest = std::max(phase.longest, passed);
  elsewhere_ += passed;
  phase_.reset();
}

void TaskPace::OnIteration(double at) {
  OnPhaseEnds(at);
  const double seconds = last_ - began_ - elsewhere_;
  began_ = last_;
  elsewhere_ = 0;
  if (std::exchange(is_first_, false)) return;
  recent_.push_back(seconds);
  if (recent_.size() > kRecent) {
    // A task that stays slow is compared with what it was.
    if (!slow_) before_.push_back(recent_.front());
    recent_.pop_front();
  }
  if (before_.size() > kBefore) before_.pop_front();
  Judge();
}

void TaskPace::Judge() {
  if (recent_.size() < kArmed) return;
  const double recent = MeanOf(recent_);
  slow_ = before_.size() >= kRecent && recent > kSlow * MeanOf(before_);
  std::vector<double> all(recent_.begin(), recent_.end());
  all.insert(all.end(), before_.begin(), before_.end());
  const double all_of_them = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
  mean_ = slow_ ? recent : all_of_them;
  patience_ = std::max({kHang * mean_, mean_ + (kDeviations * MedianDeviation(std::move(all))), kShortest});
}

double TaskPace::Mean() const { return mean_; }

double TaskPace::HangsAt() const {
  if (phase_) {
    const LongPhase& phase = phases_.at(*phase_);
    if (phase.most) return last_ + *phase.most;
    return last_ + (phase.times < kLearned ? kUnknown : std::max(kHang * phase.longest, kShortest));
  }
  return began_ + elsewhere_ + (mean_ > 0 ? patience_ : kUnknown);
}

Pace TaskPace::At(double now) const {
  if (now > HangsAt()) return Pace::kHang;
  if (mean_ == 0) return Pace::kUnknown;
  return slow_ ? Pace::kSlow : Pace::kNormal;
}

}  // namespace ucp
