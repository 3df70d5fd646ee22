// How a task comes along: whether its iterations are as long as they were, and when silence is a hang. Iterations of
// one configuration take nearly the same time, so that their statistics find in a few iterations what a timeout of half
// an hour would find. A policy without clocks or processes: it is given the times.
//
//   slow   the last 30 iterations are longer than 1.1 x the mean of up to 100 before. Nothing is done about it.
//   hang   no iteration ends for max(3 x mean, mean + 6 median deviations, 10 s).
//
// The first iteration compiles and counts for nothing. Nothing is known before 10 others; until then, an iteration may
// take 30 minutes. Long phases, such as an
// evaluation or a save, are named, and belong to no iteration. How long one may take is declared or learned: 30 minutes
// for the first two times, then three times the longest.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

namespace ucp {

enum class Pace { kUnknown, kNormal, kSlow, kHang };

// Times are in seconds, of a clock that only goes forward; one before the last counts as the last.
class TaskPace {
 public:
  // The processes have started. A new configuration has a new object.
  explicit TaskPace(double at) : last_(at), began_(at) {}

  void OnIteration(double at);
  // It lasts until OnPhaseEnds, the next phase or the end of the iteration. `most`: its declared seconds.
  void OnPhase(const std::string& name, double at, std::optional<double> most = std::nullopt);
  void OnPhaseEnds(double at);

  Pace At(double now) const;
  // When silence becomes a hang.
  double HangsAt() const;
  // Of an iteration; 0 before it is known.
  double Mean() const;

  bool operator==(const TaskPace&) const = default;

 private:
  struct LongPhase {
    int times = 0;
    double longest = 0;
    std::optional<double> most;
    bool operator==(const LongPhase&) const = default;
  };

  double Forward(double at);
  void Judge();

  double last_;           // The last thing heard.
  double began_;          // When this iteration began,
  double elsewhere_ = 0;  // … and how much of it passed in long phases.
  std::map<std::string, LongPhase> phases_;
  std::optional<std::string> phase_;  // That lasts, since last_.
  std::deque<double> recent_;         // The last iterations,
  std::deque<double> before_;         // … and those before, without the ones that came while the task was slow.
  bool is_first_ = true;
  bool slow_ = false;
  double mean_ = 0;
  double patience_ = 0;  // How long an iteration may take.
};

}  // namespace ucp
