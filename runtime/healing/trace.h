// Failures of the nodes of a cluster over time, from a file: what a simulation is given (docs/healing.md).
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/files/readable_file_system.h"
#include "runtime/healing/failures.h"

namespace ucp {

struct NodeFailure {
  double at = 0;  // In seconds from the beginning.
  std::int64_t node = 0;
  const FailureKind* kind = nullptr;
  double repair = 0;  // How long the node is away if it is left out, in seconds.
};

// How long things take, in seconds. The file may say so; these are the paper's, and of a person who restarts by hand.
struct TraceTimes {
  double iteration = 40;
  double node_health = 5.6;         // To find a lost node,
  double supervision = 1.8;         // … a process that exited,
  double exception = 0.3;           // … an exception; what statistics find takes three iterations.
  double reattempt = 10;            // The operation that is tried again.
  double timeout = 30 * 60;         // Of a collective: how long others take to find what is not a lost node.
  double resubmit = (9 + 14) * 60;  // By hand: a new submission, and the start of all processes.
  double checkpoint = 30 * 60;      // Between two checkpoints on storage.
  double person = 60 * 60;          // Until a person has seen to a parked task.
};

struct FailureTrace {
  double seconds = 0;
  TraceTimes times;
  std::vector<NodeFailure> failures;  // In the order of time.
};

// Fails (kUsage) for an unknown key, a value out of its bounds, and failures that are not in the order of time.
llvm::Expected<FailureTrace> ParseTrace(std::string_view text);
llvm::Expected<FailureTrace> ReadTraceFile(ReadableFileSystem& files, const std::string& path);

}  // namespace ucp
