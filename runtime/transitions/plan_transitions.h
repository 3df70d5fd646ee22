// The bytes that each change of a task's number of nodes moves, from plans between the layouts that it has on them.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"
#include "runtime/healing/cluster.h"

namespace ucp {

// ReadClusterFile(), and Task::moved of all tasks that have layouts. Fails (kUsage) where a strategy does not go with
// the spec, does not say which rank holds what, or has ranks that do not divide over its nodes. Plans can take minutes:
// a coordinator, which does not listen meanwhile, can `say` it as a line.
llvm::Expected<Cluster> ReadPlannedCluster(ReadableFileSystem& files, const std::string& path,
                                           llvm::function_ref<void(const std::string&)> say = {});

// For one task. Nodes keep their places; those behind a lost one move up, and new ones come behind them. Of the nodes
// that can be lost, the one counts whose loss moves most.
[[nodiscard]] llvm::Error PlanTransitions(ReadableFileSystem& files, Task& task);

}  // namespace ucp
