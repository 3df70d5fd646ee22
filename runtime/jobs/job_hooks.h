// Callbacks of a job while it goes on. Everything is called on rank 0 alone, and nothing need be set.
#pragma once

#include <functional>
#include <string>

#include "compiler/open/opened_spec.h"
#include "runtime/executor/execute.h"

namespace ucp {

using ProgressCallback = std::function<void(const ExecutionProgress&)>;

struct JobHooks {
  // At the beginning of each stretch of reading: the callback for its progress. Destroyed at its end.
  std::function<ProgressCallback()> begin_progress = [] { return ProgressCallback(); };
  // Once the spec is bound, or is found to be wrong: its warnings and errors.
  std::function<void(const SpecSession&)> bound = [](const SpecSession&) {};
  // About the source, in one sentence each.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

}  // namespace ucp
