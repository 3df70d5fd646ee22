// The subcommands of `ucprun cluster` that have a file of their own.
#pragma once

#include <CLI/App.hpp>

namespace ucp {

void AddClusterNodesCommands(CLI::App& cluster, int& exit_code);

}  // namespace ucp
