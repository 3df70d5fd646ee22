// task_pace < EVENTS: what the statistics of iterations say about a task. tests/bench/healing.py draws it.
//
// A line of the input is `iteration SECONDS` or `NAME SECONDS`, a long phase. For each iteration it prints its seconds,
// after how many it would have been a hang, and `hang`, `slow` or `-`.
#include <iostream>
#include <string>

#include "runtime/healing/pace.h"

int main() {
  double now = 0;
  ucp::TaskPace pace(now);
  std::string event;
  double seconds = 0;
  while (std::cin >> event >> seconds) {
    if (event != "iteration") {
      pace.OnPhase(event, now);
      now += seconds;
      pace.OnPhaseEnds(now);
      continue;
    }
    const double most = pace.HangsAt() - now;
    now += seconds;
    const bool is_hang = pace.At(now) == ucp::Pace::kHang;
    pace.OnIteration(now);
    const bool is_slow = pace.At(now) == ucp::Pace::kSlow;
    std::cout << seconds << ' ' << most << ' ' << (is_hang ? "hang" : is_slow ? "slow" : "-") << '\n';
  }
  return 0;
}
