// The phases of a program's run and how long each took: one begins where the one before it ends.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace ucp {

struct Phase {
  std::string name;
  double begin_seconds = 0;  // Since the clock was made.
  double seconds = 0;
};

// One thread at a time.
class PhaseClock {
 public:
  using Listener = std::function<void(const Phase&)>;

  // A phase that has begun is reported with 0 seconds, and once more when it has ended.
  void TellBegin(Listener listener) { on_begin_.push_back(std::move(listener)); }
  void TellEnd(Listener listener) { on_end_.push_back(std::move(listener)); }

  void Begin(std::string name) {
    End();
    phases_.push_back({std::move(name), Now(), 0});
    is_running_ = true;
    for (const Listener& listener : on_begin_) listener(phases_.back());
  }

  void End() {
    if (!is_running_) return;
    is_running_ = false;
    phases_.back().seconds = Now() - phases_.back().begin_seconds;
    for (const Listener& listener : on_end_) listener(phases_.back());
  }

  double Now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  const std::vector<Phase>& phases() const { return phases_; }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point start_ = Clock::now();
  std::vector<Phase> phases_;
  bool is_running_ = false;
  std::vector<Listener> on_begin_;
  std::vector<Listener> on_end_;
};

// Does nothing without a clock.
inline void BeginPhase(PhaseClock* clock, const char* name) {
  if (clock != nullptr) clock->Begin(name);
}

}  // namespace ucp
