// The file that names the tasks of a cluster (docs/healing.md).
#pragma once

#include <llvm/Support/Error.h>

#include <string>

#include "compiler/files/readable_file_system.h"
#include "runtime/healing/cluster.h"

namespace ucp {

inline constexpr std::int64_t kMostNodes = 10'000;
inline constexpr std::size_t kMostTasks = 1'000;

// Fails (kUsage) for an unknown key, a value out of its bounds, two tasks of one name, and sums that do not fit on the
// nodes. The message names the file, the task, and both values.
llvm::Expected<Cluster> ReadClusterFile(ReadableFileSystem& files, const std::string& path);
llvm::Expected<Cluster> ParseCluster(std::string_view text);

// Fails (kUsage) for what does not fit on the nodes of the cluster.
[[nodiscard]] llvm::Error CheckCluster(const Cluster& cluster);

}  // namespace ucp
