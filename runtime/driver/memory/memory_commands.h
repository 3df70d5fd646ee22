// The subcommands of `ucprun memory` that look at what is in this machine's memory.
#pragma once

#include <CLI/App.hpp>

namespace ucp {

void AddMemoryListCommand(CLI::App& memory, int& exit_code);
void AddMemoryVerifyCommand(CLI::App& memory, int& exit_code);
void AddMemoryDropCommand(CLI::App& memory, int& exit_code);

}  // namespace ucp
