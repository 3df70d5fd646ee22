// Progress on standard error while elements move (runtime/command_line/progress_output.h says when and how).
#pragma once

#include "runtime/command_line/progress_output.h"
#include "runtime/executor/execute.h"

namespace ucp {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(const ExecutionProgress& progress);
  void Clear();

 private:
  ProgressOutput output_;
};

}  // namespace ucp
