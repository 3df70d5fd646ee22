// The line that moves on a terminal while elements move. In a pipe there is none.
#pragma once

#include <chrono>

#include "runtime/executor/execute.h"

namespace ucp {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // Clears the line.
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(const ExecutionProgress& progress);

 private:
  std::chrono::steady_clock::time_point start_;
  bool on_terminal_;
  bool shown_ = false;
};

}  // namespace ucp
