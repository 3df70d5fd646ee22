// The kinds of failure of a training job, how each is found, and how bad it is (failures.def).
#pragma once

#include <llvm/ADT/ArrayRef.h>

#include <string_view>

namespace ucp {

enum class DetectionMethod {
  kNodeHealth,   // The node's agent is no longer heard.
  kSupervision,  // The agent sees how a process ended.
  kException,    // The process says so itself, before it unwinds.
  kStatistics,   // Iterations take longer than they did.
};

struct FailureKind {
  std::string_view name;
  DetectionMethod method;
  int severity;            // 1: the node is given up. 2: processes start again. 3: tried again in place.
  std::string_view words;  // Of an exception; alternatives between `|`.
};

// All rows.
llvm::ArrayRef<FailureKind> FailureKinds();

// Returns the kind of that name, or nothing.
const FailureKind* FindFailureKind(std::string_view name);

// Returns the kind of an exception, such as ("RuntimeError", "CUDA error: an illegal memory access was encountered").
const FailureKind& KindOfException(std::string_view type, std::string_view text);

}  // namespace ucp
